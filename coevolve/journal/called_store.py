"""The journal as other processes call it: calls and answers are bytes, whatever carries them.

Reads run in threads of their own, each on a transaction of its own, so that they hold up no write
and no wait. Their answers come in pages of bounded size.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import msgspec
import structlog

from coevolve.journal.journal import Journal
from coevolve.journal.layout import index_key, topic_key
from coevolve.journal.local_store import LocalStore
from coevolve.journal.opening import READ_THREADS
from coevolve.journal.queries import Snapshot
from protocols.errors import CoevolveError
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take
from protocols.store_calls import (
    Answer,
    Call,
    Copied,
    Copy,
    Count,
    Find,
    Last,
    Newest,
    Read,
    ReadCall,
    Records,
    Refused,
    Scan,
    Sequences,
    Wait,
)

PAGE_BYTES = 1 << 20
"""Bodies in one answer to a read. Encoding a page stops every other thread of the process."""

_DECODER: "msgspec.msgpack.Decoder[Call]" = msgspec.msgpack.Decoder(Call)
_ENCODER = msgspec.msgpack.Encoder()

log = structlog.get_logger()


class CalledStore:
    """Answers the calls of other processes. Use it from one event loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._store = LocalStore(journal)
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="reads")

    async def answer(self, encoded: bytes | bytearray) -> bytes:
        """Carry out an encoded `Call` and return the encoded `Answer`; errors are answers too."""
        try:
            call = _DECODER.decode(encoded)
            if isinstance(call, ReadCall):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._readers, self._read, call)
            return _ENCODER.encode(await self._carry_out(call))
        except CoevolveError as error:
            return _ENCODER.encode(Refused(error=type(error).__name__, message=str(error)))
        except Exception as error:
            log.exception("unexpected error of the store")
            said = f"the store's process raised {type(error).__name__}: {error}"
            return _ENCODER.encode(Refused(error="JournalError", message=said))

    async def statistics(self) -> JournalStatistics:
        return await self._store.statistics()

    async def close(self) -> None:
        """Answer pending calls and close the folder; later calls are refused."""
        await asyncio.to_thread(self._readers.shutdown)
        await asyncio.to_thread(self._journal.close)

    async def _carry_out(self, call: Append | Take | Complete | Wait | Copy | Count) -> Answer:
        match call:
            case Append():
                return Sequences(sequences=await self._store.append(call))
            case Complete():
                return Sequences(sequences=await self._store.complete(call))
            case Take():
                return Records(records=tuple(await self._store.take(call)))
            case Wait():
                newest = await self._store.wait(call.topics, call.after, call.wait_s)
                return Newest(sequence=newest)
            case Copy():
                await self._store.checkpoint(Path(call.path))
                return Copied()
            case Count():
                return await self._store.statistics()

    def _read(self, call: ReadCall) -> bytes:
        with self._journal.snapshot() as state:
            records, more = _page(state, call)
        return _ENCODER.encode(Records(records=tuple(records), more=more))


def _page(state: Snapshot, call: ReadCall) -> tuple[Sequence[StoredRecord], bool]:
    """Return the records of one answer, and whether the caller has to ask for the rest."""
    match call:
        case Last():
            record = state.last(call.topic)
            return ((record,) if record else ()), False
        case Read():
            return state.page(call.sequences, PAGE_BYTES)
        case Scan():
            entry, after = topic_key(call.topic), call.after
        case Find():
            entry, after = index_key(call.index, call.key), call.after
    return state.page(islice(state.sequences(entry, after), call.limit), PAGE_BYTES, entry)

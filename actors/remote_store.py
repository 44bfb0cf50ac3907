"""The journal as parts see it: proxies for the store's actor, which only forward calls.

While the actor restarts, Ray repeats the calls in flight; their receipts prevent a second
execution.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from ray import ObjectRef
from ray.exceptions import ActorDiedError, RayTaskError

from protocols.errors import CoevolveError, JournalError
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take

STORE_NAME = "store"
"""The actor's name in the run's Ray namespace, by which ``attach`` finds it."""

Answer = TypeVar("Answer")

# Ray would pickle each struct separately, which takes ten times as long.
_ENCODER = msgspec.msgpack.Encoder()
_RECORDS = msgspec.msgpack.Decoder(list[StoredRecord])


class RemoteStore:
    """The callers' proxy: a ``protocols.interfaces.Store``."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def reader(self) -> "RemoteReader":
        """Return read access for nodes other than the store's."""
        return RemoteReader(self._actor)

    async def append(self, request: Append) -> tuple[int, ...]:
        """Add records and return their sequences. Raises JournalFullError."""
        return await _answer(self._actor.append.remote(_ENCODER.encode(request)))

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        """Return leased records, oldest first; empty if none arrived within ``wait_s``."""
        answer = await _answer(self._actor.take.remote(_ENCODER.encode(request)))
        return _RECORDS.decode(answer)

    async def complete(self, request: Complete) -> tuple[int, ...]:
        """Finish records and return the outputs' sequences. Raises LeaseLostError."""
        return await _answer(self._actor.complete.remote(_ENCODER.encode(request)))

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        """Return the newest sequence among ``topics``, above ``after`` or after ``wait_s``."""
        return await _answer(self._actor.wait.remote(topics, after, wait_s))

    async def checkpoint(self, path: Path) -> None:
        """Copy the journal into the new folder ``path`` on the store's machine."""
        await _answer(self._actor.checkpoint.remote(path))

    async def statistics(self) -> JournalStatistics:
        """Return the journal's record counts and sizes."""
        return await _answer(self._actor.statistics.remote())


class RemoteReader:
    """A ``protocols.interfaces.Reader`` for machines other than the store's."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        """Return these records in this order. Raises JournalError if one was deleted."""
        return _RECORDS.decode(await _answer(self._actor.read.remote(sequences)))

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records of ``topic`` after sequence ``after``."""
        return _RECORDS.decode(await _answer(self._actor.scan.remote(topic, after, limit)))

    async def last(self, topic: str) -> StoredRecord | None:
        """Return the newest record of ``topic``, or None if it has none."""
        records = _RECORDS.decode(await _answer(self._actor.last.remote(topic)))
        return records[0] if records else None

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records that carry the index key."""
        return _RECORDS.decode(await _answer(self._actor.find.remote(index, key, limit)))


async def _answer(call: "ObjectRef[Answer]") -> Answer:
    """Return the actor's answer; raise its error, or JournalError if the actor is dead."""
    try:
        return await call
    except RayTaskError as error:
        raise _original_error(error) from None
    except ActorDiedError as error:
        *_, reason = str(error).strip().splitlines()
        raise JournalError(f"the store's process does not start: {reason}") from None


def _original_error(error: RayTaskError) -> Exception:
    """Return the actor's own error if it is a CoevolveError; otherwise Ray's error."""
    return error.cause if isinstance(error.cause, CoevolveError) else error

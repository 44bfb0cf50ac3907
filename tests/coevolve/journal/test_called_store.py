import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from coevolve.journal.called_store import CalledStore
from coevolve.journal.journal import Journal
from coevolve.journal.opening import READ_THREADS
from coevolve.journal.queries import Snapshot
from protocols.store_calls import Answer, Call, Copied, Copy, Count, Last, Records, Sequences
from tests.journals import append, bodies, record

WAIT_S = 20.0


class SlowToRead(Journal):
    """A journal whose snapshots open when a test allows it."""

    allowed: threading.Event
    reading: int

    @contextmanager
    def snapshot(self) -> Generator[Snapshot]:
        self.reading += 1
        assert self.allowed.wait(WAIT_S)
        with super().snapshot() as state:
            yield state


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SlowToRead]:
    journal = SlowToRead.open(tmp_path / "store")
    assert isinstance(journal, SlowToRead)
    journal.allowed, journal.reading = threading.Event(), 0
    yield journal
    journal.close()


async def answer(store: CalledStore, call: Call) -> Answer:
    encoded = await store.answer(msgspec.msgpack.encode(call))
    return msgspec.msgpack.decode(encoded, type=Answer)


async def test_reads_hold_up_no_write_and_few_run_at_a_time(journal: SlowToRead) -> None:
    store = CalledStore(journal)
    reads = [asyncio.create_task(answer(store, Last(topic="note"))) for _ in range(9)]
    async with asyncio.timeout(WAIT_S):
        for counter in range(1, 20):
            added = await answer(store, append(record(str(counter)), counter=counter))
            assert added == Sequences(sequences=(counter,))
        assert journal.reading == READ_THREADS
        journal.allowed.set()
        for found in await asyncio.gather(*reads):
            assert isinstance(found, Records)
            assert bodies(found.records) == ["19"]


async def test_a_copy_is_made_where_the_caller_asks(journal: SlowToRead, tmp_path: Path) -> None:
    store = CalledStore(journal)
    assert await answer(store, Copy(path=str(tmp_path / "copy"))) == Copied()
    assert (tmp_path / "copy" / "data.mdb").exists()


async def test_a_closed_store_refuses_every_call(journal: SlowToRead) -> None:
    store = CalledStore(journal)
    await store.close()
    for call in (append(record("a")), Count(), Last(topic="note")):
        encoded = await store.answer(msgspec.msgpack.encode(call))
        assert msgspec.msgpack.decode(encoded)["error"] == "JournalError"

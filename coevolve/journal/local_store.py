"""The journal from within its own process: waiting that is woken by commits, never by a timer.

The store actor runs on this, and so do the tests and the loop in one process.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from coevolve.journal.journal import Journal
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take


class LocalStore:
    """A `protocols.interfaces.Store` and `Reader` over the journal that this process writes.

    Use it from one event loop. The journal stays the caller's to close.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}
        self._takes: dict[tuple[str, str], asyncio.Event] = {}
        journal.listen(self._news)

    async def append(self, request: Append) -> tuple[int, ...]:
        """Add records and return their sequences. Raises JournalFullError."""
        return await asyncio.wrap_future(self._journal.append(request))

    async def complete(self, request: Complete) -> tuple[int, ...]:
        """Finish records and return the outputs' sequences. Raises LeaseLostError."""
        return await asyncio.wrap_future(self._journal.complete(request))

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        """Return ``at_least`` leased records or more, oldest first; fewer once ``wait_s`` passed.

        A newer take of the same seat ends an older one that still waits: its answer is not
        wanted any more, and what it would lease would be given up at once.
        """
        ends = asyncio.get_running_loop().time() + request.wait_s
        seat = (request.consumer, request.member)
        with self._woken_by(request.topics) as news:
            self._supersede(seat, news)
            records: list[StoredRecord] = []
            while True:
                news.clear()
                taken = await asyncio.wrap_future(self._journal.take(_further(request, records)))
                records.extend(taken.records)
                left_s = ends - asyncio.get_running_loop().time()
                enough = len(records) >= min(request.at_least, request.limit)
                if enough or left_s <= 0:
                    break
                await _set_within(news, min(left_s, taken.expires_s))
                if self._takes.get(seat) is not news:
                    return records
            if self._takes.get(seat) is news:
                del self._takes[seat]
            return records

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        """Return the newest sequence among ``topics`` once it exceeds ``after``, or in time."""
        ends = asyncio.get_running_loop().time() + wait_s
        with self._woken_by(topics) as news:
            while True:
                news.clear()
                newest = self._journal.newest(topics)
                left_s = ends - asyncio.get_running_loop().time()
                if newest > after or left_s <= 0:
                    return newest
                await _set_within(news, left_s)

    async def checkpoint(self, path: Path) -> None:
        """Copy the journal, consistent and openable, into the new folder ``path``."""
        await asyncio.to_thread(self._journal.checkpoint, path)

    async def statistics(self) -> JournalStatistics:
        """Count what the journal holds."""
        return await asyncio.wrap_future(self._journal.statistics())

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        """Return these records in this order. Raises JournalError where one is gone."""
        with self._journal.snapshot() as state:
            return state.read(sequences)

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records of ``topic`` beyond sequence ``after``."""
        with self._journal.snapshot() as state:
            return state.scan(topic, after, limit)

    async def last(self, topic: str) -> StoredRecord | None:
        """Return the newest record of ``topic``, or None where there is none."""
        with self._journal.snapshot() as state:
            return state.last(topic)

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records that carry the index key."""
        with self._journal.snapshot() as state:
            return state.find(index, key, limit)

    @contextmanager
    def _woken_by(self, topics: Sequence[str]) -> Generator[asyncio.Event]:
        """Give an event that news about ``topics`` (all where empty) sets."""
        self._loop = asyncio.get_running_loop()
        news = asyncio.Event()
        self._waiting[news] = frozenset(topics)
        try:
            yield news
        finally:
            del self._waiting[news]

    def _supersede(self, seat: tuple[str, str], news: asyncio.Event) -> None:
        older = self._takes.get(seat)
        self._takes[seat] = news
        if older is not None:
            older.set()

    def _news(self, topics: frozenset[str]) -> None:
        """Called by the journal's thread."""
        if self._waiting and self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed; so are its waiters
                self._loop.call_soon_threadsafe(self._wake, topics)

    def _wake(self, topics: frozenset[str]) -> None:
        for news, wanted in self._waiting.items():
            if not wanted or wanted & topics:
                news.set()


def _further(request: Take, records: Sequence[StoredRecord]) -> Take:
    """Return ``request`` for what is still wanted beside ``records``, which stay leased."""
    if not records:
        return request
    return msgspec.structs.replace(
        request,
        held=(*request.held, *(record.sequence for record in records)),
        limit=request.limit - len(records),
    )


async def _set_within(event: asyncio.Event, wait_s: float) -> None:
    """Return when ``event`` is set, or after ``wait_s`` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await event.wait()

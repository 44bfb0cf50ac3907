"""The journal's interface inside its own process; commits wake waiting calls, without any timer.

The store actor, the tests and single-process runs use it.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from coevolve.journal.journal import Journal
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take


class LocalStore:
    """A `protocols.interfaces.Store` and `Reader` for the journal that this process writes.

    Use it from one event loop. The caller closes the journal.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}
        self._takes: dict[tuple[str, str], asyncio.Event] = {}
        journal.listen(self._news)

    async def append(self, request: Append) -> tuple[int, ...]:
        return await asyncio.wrap_future(self._journal.append(request))

    async def complete(self, request: Complete) -> tuple[int, ...]:
        return await asyncio.wrap_future(self._journal.complete(request))

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        """Return at least ``at_least`` leased records, oldest first; fewer after ``wait_s``.

        A newer take of the same seat ends an older one that still waits, because nobody needs the
        older answer and its leases would be released at once.
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
        await asyncio.to_thread(self._journal.checkpoint, path)

    async def statistics(self) -> JournalStatistics:
        return await asyncio.wrap_future(self._journal.statistics())

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        with self._journal.snapshot() as state:
            return state.read(sequences)

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        with self._journal.snapshot() as state:
            return state.scan(topic, after, limit)

    async def last(self, topic: str) -> StoredRecord | None:
        with self._journal.snapshot() as state:
            return state.last(topic)

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        with self._journal.snapshot() as state:
            return state.find(index, key, limit)

    @contextmanager
    def _woken_by(self, topics: Sequence[str]) -> Generator[asyncio.Event]:
        """Yield an event that is set by news about ``topics`` (about any topic if empty)."""
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
            with suppress(RuntimeError):  # the loop is closed, so nobody waits
                self._loop.call_soon_threadsafe(self._wake, topics)

    def _wake(self, topics: frozenset[str]) -> None:
        for news, wanted in self._waiting.items():
            if not wanted or wanted & topics:
                news.set()


def _further(request: Take, records: Sequence[StoredRecord]) -> Take:
    """Return ``request`` reduced by ``records``, whose leases it keeps."""
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

"""Reads a topic page by page, forwards or from its end, so that each answer has a bounded size."""

from collections import deque
from collections.abc import AsyncIterator, Callable

from protocols.interfaces import Reader
from protocols.journal import StoredRecord

PAGE = 1000


async def whole_topic(reader: Reader, topic: str, after: int = 0) -> AsyncIterator[StoredRecord]:
    """Yield every record of ``topic`` after sequence ``after``, oldest first.

    Records that arrive during the iteration are included.
    """
    while page := await reader.scan(topic, after=after, limit=PAGE):
        for record in page:
            yield record
        after = page[-1].sequence


async def newest(
    reader: Reader,
    topic: str,
    count: int,
    wanted: Callable[[StoredRecord], bool] = lambda record: True,
) -> list[StoredRecord]:
    """Return the newest ``count`` records of ``topic`` that are ``wanted``, oldest first.

    Reads backwards, in stretches of sequences that double until they held enough records. So the
    work depends on how long ago the oldest of these was written, not on the size of the journal.
    """
    last = await reader.last(topic)
    end, span = last.sequence + 1 if last else 0, PAGE
    found: list[StoredRecord] = []
    while end > 1 and len(found) < count:
        after = max(0, end - 1 - span)
        kept: deque[StoredRecord] = deque(maxlen=count - len(found))
        async for record in stretch(reader, topic, after, end):
            if wanted(record):
                kept.append(record)
        found = [*kept, *found]
        end, span = after + 1, 2 * span
    return found


async def stretch(reader: Reader, topic: str, after: int, end: int) -> AsyncIterator[StoredRecord]:
    """Yield the records of ``topic`` with after < sequence < end, oldest first."""
    while limit := min(PAGE, end - 1 - after):
        page = await reader.scan(topic, after=after, limit=limit)
        for record in page:
            if record.sequence >= end:
                return
            yield record
        if len(page) < limit:
            return
        after = page[-1].sequence

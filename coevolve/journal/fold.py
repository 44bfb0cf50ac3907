"""Folds topics into one state, in the journal's order, to rebuild a part and keep it up to date.

The first call after a start rebuilds the state; each later call adds the records since. Live and
rebuilt states therefore use the same records in the same order, and no record counts twice.
"""

import heapq
from collections.abc import AsyncIterator, Callable, Sequence

from coevolve.journal.codec import decode
from coevolve.journal.paging import stretch, whole_topic
from protocols.interfaces import Reader
from protocols.journal import Message, StoredRecord


async def fold(
    reader: Reader, topics: Sequence[str], into: Callable[[Message], None], after: int = 0
) -> int:
    """Pass each record of ``topics`` after sequence ``after`` to ``into``, oldest first.

    Returns the sequence up to which all records were passed; use it as the next call's ``after``.
    Records that arrive during the call are left to the next call, so no record is passed before an
    older one.
    """
    return await fold_records(reader, topics, lambda record: into(decode(record)), after)


async def fold_records(
    reader: Reader, topics: Sequence[str], into: Callable[[StoredRecord], None], after: int = 0
) -> int:
    """Do the same as `fold`, with records that are not decoded."""
    newest = [await reader.last(topic) for topic in topics]
    through = max((record.sequence for record in newest if record), default=0)
    if through <= after:
        return after
    # Includes topics without news in the loop above: they may have received records since.
    sources = [stretch(reader, topic, after, through + 1) for topic in topics]
    async for record in _merge(sources):
        into(record)
    return through


def in_order(reader: Reader, topics: Sequence[str]) -> AsyncIterator[StoredRecord]:
    """Yield every record of ``topics``, oldest first; keeps one page per topic in memory."""
    return _merge([whole_topic(reader, topic) for topic in topics])


async def _merge(sources: Sequence[AsyncIterator[StoredRecord]]) -> AsyncIterator[StoredRecord]:
    """Merge ``sources``, each ascending by sequence, into one ascending stream of records."""
    heads: list[tuple[int, int, StoredRecord]] = []
    for number, source in enumerate(sources):
        async for record in source:
            heads.append((record.sequence, number, record))
            break
    heapq.heapify(heads)
    while heads:
        _, number, record = heads[0]
        yield record
        following = await anext(sources[number], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.sequence, number, following))

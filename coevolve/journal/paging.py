"""Reads a whole topic page by page, so that the size of each answer is bounded."""

from collections.abc import AsyncIterator

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

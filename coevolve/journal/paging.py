"""A whole topic, read page by page, so that no answer grows with the journal."""

from collections.abc import AsyncIterator

from protocols.interfaces import Reader
from protocols.journal import StoredRecord

PAGE = 1000


async def whole_topic(reader: Reader, topic: str) -> AsyncIterator[StoredRecord]:
    """Yield every record of ``topic``, oldest first, those that come meanwhile included."""
    after = 0
    while page := await reader.scan(topic, after=after, limit=PAGE):
        for record in page:
            yield record
        after = page[-1].sequence

"""A whole topic, read page by page, so that no answer grows with the journal."""

from collections.abc import AsyncIterator

from protocols.interfaces import Reader
from protocols.journal import StoredRecord

PAGE = 1000


async def whole_topic(reader: Reader, topic: str, after: int = 0) -> AsyncIterator[StoredRecord]:
    """Yield every record of ``topic`` beyond sequence ``after``, oldest first.

    Those that come meanwhile are included.
    """
    while page := await reader.scan(topic, after=after, limit=PAGE):
        for record in page:
            yield record
        after = page[-1].sequence

"""Records that may be gone: retention evicts rollouts, and what refers to them stays."""

from collections.abc import Sequence

from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.journal import StoredRecord


async def retained(reader: Reader, sequences: Sequence[int]) -> Sequence[StoredRecord]:
    """Return those of the records that the journal still holds, in the order asked for."""
    try:
        return await reader.read(sequences)
    except JournalError:
        if len(sequences) == 1:
            return ()
        return [record for each in sequences for record in await retained(reader, (each,))]

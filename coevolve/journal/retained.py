"""Records that may be gone: retention evicts rollouts, and what refers to them stays."""

from collections.abc import Sequence

from coevolve.journal.codec import decode_as
from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.journal import StoredRecord
from protocols.rollouts import Rollout


async def retained_rollouts(reader: Reader, sequences: Sequence[int]) -> dict[int, Rollout]:
    """Return the rollouts that the journal still holds by sequence, in the order asked for."""
    return {
        record.sequence: decode_as(record, Rollout) for record in await _retained(reader, sequences)
    }


async def _retained(reader: Reader, sequences: Sequence[int]) -> Sequence[StoredRecord]:
    """Return those of the records that the journal still holds, in the order asked for."""
    try:
        return await reader.read(sequences)
    except JournalError:
        if len(sequences) == 1:
            return ()
        return [record for each in sequences for record in await _retained(reader, (each,))]

"""Reads rollouts that retention may have deleted although other records refer to them."""

from collections.abc import Sequence

from coevolve.journal.codec import decode_as
from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.journal import StoredRecord
from protocols.rollouts import Rollout


async def retained_rollouts(reader: Reader, sequences: Sequence[int]) -> dict[int, Rollout]:
    """Return the rollouts that the journal still has, by sequence, in the requested order."""
    return {
        record.sequence: decode_as(record, Rollout)
        for record in await _read_retained(reader, sequences)
    }


async def _read_retained(reader: Reader, sequences: Sequence[int]) -> Sequence[StoredRecord]:
    """Return the records that the journal still has, in the requested order."""
    try:
        return await reader.read(sequences)
    except JournalError:
        if len(sequences) == 1:
            return ()
        return [record for each in sequences for record in await _read_retained(reader, (each,))]

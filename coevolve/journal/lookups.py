"""What an environment looks up in a run's journal."""

from collections.abc import AsyncIterator

import msgspec

from coevolve.journal.codec import (
    RECORDS_BY_KEY,
    ROLLOUTS_BY_OUTCOME,
    decode_as,
    record_key,
    topic_of,
)
from coevolve.journal.paging import whole_topic
from protocols.evolution import EnvironmentRecord
from protocols.interfaces import Reader
from protocols.rollouts import Rollout


async def environment_record(reader: Reader, kind: str, key: str) -> msgspec.Raw | None:
    """Return the body of an environment's record; None if the journal has none."""
    found = await reader.find(RECORDS_BY_KEY, record_key(kind, key), limit=1)
    return decode_as(found[0], EnvironmentRecord).body if found else None


async def rollout_with_outcome(reader: Reader, key: str) -> Rollout | None:
    """Return a rollout with this key of its outcome; None if the journal has none."""
    found = await reader.find(ROLLOUTS_BY_OUTCOME, key, limit=1)
    return decode_as(found[0], Rollout) if found else None


async def all_rollouts(reader: Reader) -> AsyncIterator[Rollout]:
    """Yield every rollout that the journal has, oldest first."""
    async for record in whole_topic(reader, topic_of(Rollout)):
        yield decode_as(record, Rollout)

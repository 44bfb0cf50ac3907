"""Looks messages up in a run's journal, by their kind."""

from collections.abc import AsyncIterator
from typing import TypeVar

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

Kind = TypeVar("Kind", bound=msgspec.Struct)


async def newest_of(reader: Reader, kind: type[Kind]) -> Kind | None:
    """Return the newest message of a kind; None if the journal has none."""
    record = await reader.last(topic_of(kind))
    return decode_as(record, kind) if record else None


async def all_of(reader: Reader, kind: type[Kind], after: int = 0) -> AsyncIterator[Kind]:
    """Yield every message of a kind after sequence ``after``, oldest first.

    Those that arrive during the iteration are included.
    """
    async for record in whole_topic(reader, topic_of(kind), after):
        yield decode_as(record, kind)


async def environment_record(reader: Reader, kind: str, key: str) -> msgspec.Raw | None:
    """Return the body of an environment's record; None if the journal has none."""
    found = await reader.find(RECORDS_BY_KEY, record_key(kind, key), limit=1)
    return decode_as(found[0], EnvironmentRecord).body if found else None


async def rollout_with_outcome(reader: Reader, key: str) -> Rollout | None:
    """Return a rollout with this key of its outcome; None if the journal has none."""
    found = await reader.find(ROLLOUTS_BY_OUTCOME, key, limit=1)
    return decode_as(found[0], Rollout) if found else None

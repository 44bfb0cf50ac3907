"""Reads a run that `coevolve.loop.run_here` carried out in this process."""

from typing import Any

import msgspec

from coevolve.journal.codec import decode, topic_of
from coevolve.journal.local_store import LocalStore


async def everything(store: LocalStore, kind: type[msgspec.Struct]) -> list[Any]:
    """Return every message of a kind."""
    return [decode(record) for record in await store.scan(topic_of(kind), limit=10_000)]

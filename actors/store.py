"""The journal as a Ray actor; it only forwards calls (`actors.remote_store`)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.actor import ActorClass

from actors.remote_store import STORE_NAME
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.parts.status import StatusReporter
from protocols.config import StoreConfig
from protocols.control import PartStatus
from protocols.journal import Append, Complete, JournalStatistics, Take

CONCURRENT_CALLS = 10_000
"""Most calls are blocked in `take` or `wait`."""

# Ray would pickle each struct separately, which takes ten times as long.
_ENCODER = msgspec.msgpack.Encoder()
_APPEND = msgspec.msgpack.Decoder(Append)
_TAKE = msgspec.msgpack.Decoder(Take)
_COMPLETE = msgspec.msgpack.Decoder(Complete)


class StoreShell:
    """Runs the journal in ``folder``, in its only writing process."""

    def __init__(self, folder: Path, config: StoreConfig) -> None:
        journal = Journal.open(
            folder,
            durability=config.durability,
            map_size_bytes=config.map_size_gb << 30,
            retain_bytes=int(config.retain_gb * (1 << 30)),
        )
        self._store = LocalStore(journal)
        self._journal = journal
        self._reporter = StatusReporter(STORE_NAME)
        self._reporter.waits_for("records")

    @ray.method
    async def append(self, request: bytes) -> tuple[int, ...]:
        """Forward."""
        return await self._store.append(_APPEND.decode(request))

    @ray.method
    async def take(self, request: bytes) -> bytes:
        """Forward."""
        return _ENCODER.encode(await self._store.take(_TAKE.decode(request)))

    @ray.method
    async def complete(self, request: bytes) -> tuple[int, ...]:
        """Forward."""
        return await self._store.complete(_COMPLETE.decode(request))

    @ray.method
    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        """Forward."""
        return await self._store.wait(topics, after, wait_s)

    @ray.method
    async def checkpoint(self, path: Path) -> None:
        """Forward."""
        await self._store.checkpoint(path)

    @ray.method
    async def statistics(self) -> JournalStatistics:
        """Forward."""
        return await self._store.statistics()

    @ray.method
    async def read(self, sequences: Sequence[int]) -> bytes:
        """Forward."""
        return _ENCODER.encode(await self._store.read(sequences))

    @ray.method
    async def scan(self, topic: str, after: int, limit: int) -> bytes:
        """Forward."""
        return _ENCODER.encode(await self._store.scan(topic, after, limit))

    @ray.method
    async def last(self, topic: str) -> bytes:
        """Forward."""
        record = await self._store.last(topic)
        return _ENCODER.encode([record] if record else [])

    @ray.method
    async def find(self, index: str, key: str, limit: int) -> bytes:
        """Forward."""
        return _ENCODER.encode(await self._store.find(index, key, limit))

    @ray.method
    async def status(self) -> PartStatus:
        """Return the store's status; ``done`` is the last sequence."""
        self._reporter.done = (await self._store.statistics()).last_sequence
        return self._reporter.report(mailbox=0)

    @ray.method
    async def cpu_s(self) -> float:
        """Return 0: the store runs neither a model nor a simulator."""
        return 0.0

    @ray.method
    async def close(self) -> None:
        """Answer pending calls and close the folder; later calls raise JournalError."""
        await asyncio.to_thread(self._journal.close)


_remote: Any = ray.remote
"""Ray's types leave out ``max_concurrency``."""

StoreActor: "ActorClass[StoreShell]" = _remote(
    num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=CONCURRENT_CALLS
)(StoreShell)

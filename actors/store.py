"""The journal as a Ray actor, and its proxies; all only forward calls.

While the actor restarts, Ray repeats the calls in flight; their receipts prevent a second
execution.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import ray
from ray import ObjectRef
from ray.actor import ActorClass, ActorProxy
from ray.exceptions import ActorDiedError, RayTaskError

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.parts.status import StatusReporter
from protocols.config import StoreConfig
from protocols.control import PartStatus
from protocols.errors import CoevolveError, JournalError
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take

STORE_NAME = "store"
"""The actor's name in the run's Ray namespace, by which ``attach`` finds it."""

Answer = TypeVar("Answer")

CONCURRENT_CALLS = 10_000
"""Most calls are blocked in `take` or `wait`."""

# Ray would pickle each struct separately, which takes ten times as long.
_ENCODER = msgspec.msgpack.Encoder()
_APPEND = msgspec.msgpack.Decoder(Append)
_TAKE = msgspec.msgpack.Decoder(Take)
_COMPLETE = msgspec.msgpack.Decoder(Complete)
_RECORDS = msgspec.msgpack.Decoder(list[StoredRecord])


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
    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        """Forward."""
        return await self._store.read(sequences)

    @ray.method
    async def scan(self, topic: str, after: int, limit: int) -> Sequence[StoredRecord]:
        """Forward."""
        return await self._store.scan(topic, after, limit)

    @ray.method
    async def last(self, topic: str) -> StoredRecord | None:
        """Forward."""
        return await self._store.last(topic)

    @ray.method
    async def find(self, index: str, key: str, limit: int) -> Sequence[StoredRecord]:
        """Forward."""
        return await self._store.find(index, key, limit)

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


class RemoteStore:
    """The callers' proxy: a ``protocols.interfaces.Store``."""

    def __init__(self, actor: "ActorProxy[StoreShell]") -> None:
        self._actor = actor

    async def append(self, request: Append) -> tuple[int, ...]:
        """Add records and return their sequences. Raises JournalFullError."""
        return await _answer(self._actor.append.remote(_ENCODER.encode(request)))

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        """Return leased records, oldest first; empty if none arrived within ``wait_s``."""
        answer = await _answer(self._actor.take.remote(_ENCODER.encode(request)))
        return _RECORDS.decode(answer)

    async def complete(self, request: Complete) -> tuple[int, ...]:
        """Finish records and return the outputs' sequences. Raises LeaseLostError."""
        return await _answer(self._actor.complete.remote(_ENCODER.encode(request)))

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        """Return the newest sequence among ``topics``, above ``after`` or after ``wait_s``."""
        return await _answer(self._actor.wait.remote(topics, after, wait_s))

    async def checkpoint(self, path: Path) -> None:
        """Copy the journal into the new folder ``path`` on the store's machine."""
        await _answer(self._actor.checkpoint.remote(path))

    async def statistics(self) -> JournalStatistics:
        """Return the journal's record counts and sizes."""
        return await _answer(self._actor.statistics.remote())


class RemoteReader:
    """A ``protocols.interfaces.Reader`` for machines other than the store's."""

    def __init__(self, actor: "ActorProxy[StoreShell]") -> None:
        self._actor = actor

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        """Return these records in this order. Raises JournalError if one was deleted."""
        return await _answer(self._actor.read.remote(sequences))

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records of ``topic`` after sequence ``after``."""
        return await _answer(self._actor.scan.remote(topic, after, limit))

    async def last(self, topic: str) -> StoredRecord | None:
        """Return the newest record of ``topic``, or None if it has none."""
        return await _answer(self._actor.last.remote(topic))

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records that carry the index key."""
        return await _answer(self._actor.find.remote(index, key, limit))


async def _answer(call: "ObjectRef[Answer]") -> Answer:
    """Return the actor's answer; raise its error, or JournalError if the actor is dead."""
    try:
        return await call
    except RayTaskError as error:
        raise _original_error(error) from None
    except ActorDiedError as error:
        *_, reason = str(error).strip().splitlines()
        raise JournalError(f"the store's process does not start: {reason}") from None


def _original_error(error: RayTaskError) -> Exception:
    """Return the actor's own error if it is a CoevolveError; otherwise Ray's error."""
    return error.cause if isinstance(error.cause, CoevolveError) else error

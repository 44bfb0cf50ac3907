"""The journal as a Ray actor; it only forwards calls (`actors.remote_store`)."""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import ray
import structlog
from ray.actor import ActorClass

from actors.node import node_id
from actors.remote_store import STORE_NAME
from coevolve.journal.called_store import CalledStore
from coevolve.journal.journal import Journal
from coevolve.journal.lane import Serving, serve
from coevolve.journal.restarts import Restarts
from coevolve.parts.attempts import reason_of
from coevolve.parts.privacy import keep_private
from coevolve.parts.status import StatusReporter
from protocols.config import StoreConfig
from protocols.control import PartStatus
from protocols.errors import JournalError
from protocols.store_calls import SocketAddress

CONCURRENT_CALLS = 10_000
"""Most calls are blocked in `take` or `wait`."""

log = structlog.get_logger()


class StoreShell:
    """Runs the journal in ``folder``, in its only writing process."""

    def __init__(self, folder: Path, config: StoreConfig) -> None:
        keep_private()
        restarts = Restarts(folder)
        context: Any = ray.get_runtime_context()
        restarts.begin(again=context.was_current_actor_reconstructed)
        journal = Journal.open(
            folder,
            durability=config.durability,
            map_size_bytes=config.map_size_gb << 30,
            retain_bytes=int(config.retain_gb * (1 << 30)),
            retain_records=config.retain_records,
            broken=partial(_end, restarts),
        )
        self._store = CalledStore(journal)
        self._serving: asyncio.Task[Serving] | None = None
        self._reporter = StatusReporter(STORE_NAME)
        self._reporter.waits_for("records")

    @ray.method
    async def call(self, call: bytes) -> bytes:
        return await self._store.answer(call)

    @ray.method
    async def socket(self) -> SocketAddress:
        """Return the socket for processes of this node; the first call opens it."""
        if self._serving is None:
            self._serving = asyncio.create_task(serve(self._store.answer))
        serving = await self._serving
        return SocketAddress(node=node_id(), user=os.getuid(), name=serving.name)

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
        await self._store.close()


def _end(restarts: Restarts, failure: JournalError) -> None:
    """End the process of a journal that broke. Ray starts another, and the callers repeat to it."""
    log.error("store_broke", reason=str(failure), exc_info=failure)
    restarts.broke(reason_of(failure))
    os._exit(1)


_remote: Any = ray.remote
"""Ray's types leave out ``max_concurrency``."""

StoreActor: "ActorClass[StoreShell]" = _remote(
    num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=CONCURRENT_CALLS
)(StoreShell)

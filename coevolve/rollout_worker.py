"""The policy part: turns rollout requests into rollouts, many at a time.

Promises: a request is finished in the same transaction that adds its rollout, so each is answered
exactly once whatever is killed; a machine's failure is tried again and then becomes a void rollout,
never a reward; new weights are picked up between two tokens without draining anything.
"""

import asyncio
from collections import deque

import structlog

from coevolve.journal.codec import decode_as
from coevolve.journal.mailbox import Delivery, Mailbox
from coevolve.rollout import roll_out
from coevolve.run.standing import Standing
from coevolve.run.stopping import unless_stopped
from coevolve.tasks import TaskShelf
from protocols.config import RolloutConfig
from protocols.control import PartStatus
from protocols.errors import LeaseLostError, SimulatorError
from protocols.interfaces import Generator, Reader, Renderer, Simulator, Store
from protocols.learning import PolicyVersion
from protocols.rollouts import Rollout, RolloutRequest, VoidRollout

VERSION_WAIT_S = 30.0
TAKE_WAIT_S = 30.0

RETRY_PAUSE_S = 0.5
"""Before the second attempt, twice as long before each further one: workers restart in seconds."""

GATHER_S = 0.1
"""How long a finished rollout waits for others, so that one write carries several."""

log = structlog.get_logger()


class RolloutWorker:
    """A `protocols.interfaces.Part`: one engine and the conversations that it serves."""

    def __init__(
        self,
        name: str,
        config: RolloutConfig,
        *,
        store: Store,
        reader: Reader,
        generator: Generator,
        simulator: Simulator,
        renderer: Renderer,
        lease_s: float,
    ) -> None:
        self._config = config
        self._store = store
        self._reader = reader
        self._generator = generator
        self._simulator = simulator
        self._renderer = renderer
        self._tasks = TaskShelf(reader)
        self._mailbox = Mailbox(
            store,
            consumer="rollout",
            topics=("rollout_request",),
            member=name,
            lease_s=lease_s,
            gather_s=GATHER_S,
        )
        self._standing = Standing(name)
        self._loaded = asyncio.Condition()
        self._stopping = asyncio.Event()
        self._live: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve requests until stopped. Raises GeneratorError where the engine broke."""
        await unless_stopped(self._stopping, self._work())

    async def stop(self) -> None:
        """Drop the conversations in hand (their requests stay open) and make ``run`` return."""
        self._stopping.set()

    def status(self) -> PartStatus:
        """Say what the part is doing."""
        return self._standing.report(len(self._mailbox.held))

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_versions())
            group.create_task(self._serve(group))

    async def _follow_versions(self) -> None:
        """Load each newest version as it is published; older ones that were missed are skipped."""
        known = 0
        while True:
            known = max(known, await self._store.wait(("policy_version",), known, VERSION_WAIT_S))
            newest = await self._reader.last("policy_version")
            if newest is None:
                continue
            version = decode_as(newest, PolicyVersion)
            if version.version > self._standing.policy_version:
                await self._generator.load(version)
                async with self._loaded:
                    self._standing.policy_version = version.version
                    self._loaded.notify_all()

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        ready: deque[Delivery] = deque()
        while True:
            while ready and len(self._live) < self._config.concurrent:
                task = group.create_task(self._answer(ready.popleft()))
                self._live.add(task)
                task.add_done_callback(self._live.discard)
            if ready:
                self._standing.waits_for(f"{len(self._live)} conversations to end")
                await asyncio.wait(self._live, return_when=asyncio.FIRST_COMPLETED)
                continue
            if self._live:
                self._standing.waits_for(f"{len(self._live)} conversations, or more requests")
            else:
                self._standing.waits_for("rollout requests from the curriculum")
            # What is taken ahead saves a call of the store for every conversation that ends.
            ready.extend(await self._mailbox.take(self._config.concurrent, TAKE_WAIT_S))

    async def _answer(self, delivery: Delivery) -> None:
        request = delivery.message
        assert isinstance(request, RolloutRequest)
        outcome = await self._attempt(request)
        try:
            await self._mailbox.complete((delivery.sequence,), (outcome,))
            self._standing.done += 1
        except LeaseLostError as error:
            # Another rollout actor took the request over while the store was away.
            log.warning("rollout_dropped", group=request.group_id, reason=str(error))

    async def _attempt(self, request: RolloutRequest) -> Rollout | VoidRollout:
        task = await self._tasks.get(request.task_id)
        await self._version_at_least(request.policy_version_at_least)
        reason = ""
        for attempt in range(self._config.tries):
            try:
                return await roll_out(
                    request,
                    task,
                    f"{request.group_id}/{request.index}/{attempt}",
                    temperature=self._config.temperature,
                    generator=self._generator,
                    simulator=self._simulator,
                    renderer=self._renderer,
                    limits=self._config,
                )
            except SimulatorError as error:
                reason = str(error)
                self._standing.last_error = reason
                log.warning("simulator_failed", group=request.group_id, reason=reason)
                await asyncio.sleep(RETRY_PAUSE_S * 2**attempt)
        return VoidRollout(
            group_id=request.group_id,
            group=request.group,
            index=request.index,
            group_size=request.group_size,
            task_id=request.task_id,
            purpose=request.purpose,
            reason=reason,
            tries=self._config.tries,
        )

    async def _version_at_least(self, version: int) -> None:
        async with self._loaded:
            await self._loaded.wait_for(lambda: self._standing.policy_version >= version)

"""One run from its first record to its last: drives the parts and follows what they record.

Knows no process and no cluster: whoever composes the run hands in the store, the parts and the
display.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from coevolve.journal.codec import decode, decode_as
from coevolve.journal.mailbox import Mailbox
from coevolve.journal.paging import PAGE
from coevolve.run.accounting import CpuReading, CpuShares, all_cpu_s
from coevolve.run.directory import RunDirectory
from coevolve.run.display import Display
from coevolve.run.progress import TOPICS, MetricsFile, Progress
from coevolve.run.supervisor import Supervisor
from coevolve.run.watchdog import watch
from protocols.config import RunConfig
from protocols.control import (
    PartFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    Stalled,
    StopRequested,
)
from protocols.errors import RunError
from protocols.interfaces import Reader, Store, SupervisedPart
from protocols.journal import Message, StoredRecord
from protocols.learning import StepReport

FOLLOWED = (*TOPICS, "stop_requested")
WAIT_S = 30.0
START_UP_S = 600.0


class Run:
    """Drives a run. ``models`` and ``simulators`` are the parts whose CPU time counts as such."""

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        *,
        store: Store,
        reader: Reader,
        parts: Sequence[SupervisedPart],
        models: Sequence[SupervisedPart],
        simulators: Sequence[SupervisedPart],
        labels: Mapping[str, Sequence[str]],
        display: Display,
        started: float,
    ) -> None:
        self._config = config
        self._directory = directory
        self._store = store
        self._reader = reader
        self._parts = parts
        self._models = models
        self._simulators = simulators
        self._display = display
        self._started = started
        self._run_id = directory.identity().run_id
        self._supervisor = Supervisor(parts, self._note)
        self._mailbox = Mailbox(
            store, consumer="launch", topics=(), member="launch", lease_s=config.store.lease_s
        )
        self._first: CpuReading | None = None
        self._training_started = 0.0
        self.progress = Progress(labels)
        self.first_rollout_s: float | None = None
        self.training_s: float | None = None
        self.shares: CpuShares | None = None
        self.finished = False

    async def drive(self, stop: asyncio.Event) -> None:
        """Run until every step is taken and scored, or until ``stop``; then stop every part.

        Raises RunError where a part cannot go on.
        """
        await self._open()
        supervising = asyncio.create_task(self._supervisor.run())
        others = [
            asyncio.create_task(self._follow(stop)),
            asyncio.create_task(stop.wait()),
            asyncio.create_task(
                watch(
                    (*self._parts, *self._simulators),
                    self._store,
                    self._config.watchdog.quiet_s,
                    self._alarm,
                )
            ),
        ]
        timing = asyncio.create_task(self._time_start_up())
        try:
            done, _ = await asyncio.wait(
                (supervising, *others), return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                await _unwrapped(task)
            if stop.is_set():
                self._display.say("stopping: the step in hand ends, then a checkpoint is written")
            await self._supervisor.stop()
            await _unwrapped(supervising)
            if self.finished:
                await self._append(RunFinished(steps=self.progress.step))
        finally:
            for task in (supervising, timing, *others):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asyncio.gather(supervising, timing, *others, return_exceptions=True)

    async def _open(self) -> None:
        """Write the run's first record, or that it was opened again."""
        newest = await self._reader.last("step_report")
        taken = decode_as(newest, StepReport).step if newest else 0
        if taken > self._config.learner.steps:
            raise RunError(
                f"{self._directory.path}: has taken {taken} steps already, learner.steps is "
                f"{self._config.learner.steps}; resume with at least {taken}"
            )
        config = msgspec.json.encode(self._config).decode()
        first = await self._reader.scan("run_started", limit=1)
        kind = RunResumed if first else RunStarted
        await self._append(kind(run_id=self._run_id, config=config))

    async def _follow(self, stop: asyncio.Event) -> None:
        """Fold what is recorded into the progress; return when the run has nothing left to do."""
        metrics = MetricsFile(self._directory.metrics)
        seen: dict[str, int] = dict.fromkeys(FOLLOWED, 0)
        try:
            while not self.finished:
                newest = max(seen.values())
                for message in await self._news(seen):
                    self.progress.fold(message)
                    metrics.write(message, self.progress)
                    self._display.show(message, self.progress)
                    await self._measure()
                    if isinstance(message, StopRequested):
                        stop.set()
                self.finished = self._config.learner.steps in self.progress.evaluations
                if max(seen.values()) == newest:
                    await self._store.wait(FOLLOWED, newest, WAIT_S)
        finally:
            metrics.close()

    async def _news(self, seen: dict[str, int]) -> list[Message]:
        """Return what is new in the followed topics, in journal order."""
        records: list[StoredRecord] = []
        for topic in FOLLOWED:
            page = await self._reader.scan(topic, after=seen[topic], limit=PAGE)
            if page:
                records.extend(page)
                seen[topic] = page[-1].sequence
        return [decode(record) for record in sorted(records, key=lambda r: r.sequence)]

    async def _time_start_up(self) -> None:
        """Note when the first rollout of this start came, and how much CPU was used until then."""
        known = await self._reader.last("rollout")
        await self._store.wait(("rollout",), known.sequence if known else 0, START_UP_S)
        self.first_rollout_s = time.monotonic() - self._started
        self._first = await self._reading()
        self._training_started = time.monotonic()

    async def _measure(self) -> None:
        """Close the books at the last step."""
        if self._first and self.progress.step == self._config.learner.steps and not self.shares:
            self.shares = self._first.until(await self._reading())
            self.training_s = time.monotonic() - self._training_started

    async def _reading(self) -> CpuReading:
        models = await asyncio.gather(*(part.cpu_s() for part in self._models))
        simulators = await asyncio.gather(*(part.cpu_s() for part in self._simulators))
        return CpuReading(all_s=all_cpu_s(), model_s=sum(models), simulator_s=sum(simulators))

    async def _note(self, failure: PartFailed) -> None:
        await self._append(failure)

    async def _alarm(self, stalled: Stalled) -> None:
        self._display.show(stalled, self.progress)
        await self._append(stalled)

    async def _append(self, message: Message) -> None:
        await self._mailbox.append([message])


async def _unwrapped(task: asyncio.Task[Any]) -> None:
    """Await ``task``; of several failures at once raise the first."""
    try:
        await task
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    failure = group.exceptions[0]
    if isinstance(failure, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", failure))
    return failure

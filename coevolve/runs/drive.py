"""Drives one run from its first record to its last: starts the parts and follows their records.

This module knows no processes and no cluster: its caller provides the store, the parts and the
display.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from coevolve.curriculum.schedule import is_due
from coevolve.history.costs import costs_snapshots
from coevolve.history.directory import RunDirectory
from coevolve.history.evolution_totals import evolution_snapshots
from coevolve.history.group_totals import group_snapshots
from coevolve.history.metrics_file import MetricsFile, first_left, kept_bytes
from coevolve.history.progress import TOPICS, progress_snapshots
from coevolve.journal.codec import decode, topic_of, topics_of
from coevolve.journal.fold import fold_records
from coevolve.journal.lookups import newest_of
from coevolve.journal.mailbox import IDLE_WAIT_S, Mailbox
from coevolve.journal.snapshots import Snapshots
from coevolve.llm.call_totals import call_snapshots
from coevolve.parts.pausing import is_paused
from coevolve.runs.accounting import CpuReading, StartUsage, read_cpu
from coevolve.runs.companions import restart_on_failure
from coevolve.runs.copies.copier import RunCopier
from coevolve.runs.lay_aside import lay_aside
from coevolve.runs.polling import poll_statuses
from coevolve.runs.run_parts import RunParts
from coevolve.runs.scaling import Scaling
from coevolve.runs.stop import Stop
from coevolve.runs.supervisor import Supervisor, note_replacements, noted
from coevolve.runs.unable import until_unable
from coevolve.runs.watchdog import watch
from coevolve.screen.display import Display
from protocols.config import RunConfig
from protocols.control import (
    DeadLetter,
    NodesTooSmall,
    PartFailed,
    PartsRest,
    PartStatus,
    RolloutScaled,
    RunContinued,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    Stalled,
    StopRequested,
)
from protocols.errors import first_error
from protocols.evolution import ModelAnswers, ModelRests, ReaderAnswers, ReaderRests
from protocols.interfaces import Reader, Store, SupervisedPart
from protocols.journal import Message, StoredRecord
from protocols.learning import Evaluation, PolicyVersion, StepReport, WeightSyncAlarm
from protocols.rollouts import Rollout

STOP = topic_of(StopRequested)
"""Asks a running run to stop. A run that has restarted since ignores it."""

WAKING = topics_of(
    *(StepReport, Evaluation, PartFailed, PartsRest, ModelRests, ModelAnswers),
    *(ReaderRests, ReaderAnswers, DeadLetter, Stalled, WeightSyncAlarm, RolloutScaled),
    *(NodesTooSmall, RunPaused, RunContinued, StopRequested),
)
"""Topics whose new records wake the run at once; it then reads the other topics too."""

LOOK_GATHER_S = 1.0
"""Minimum seconds between two reads, because each reads every topic."""

START_UP_S = 600.0
START_UP_PAUSE_S = 0.5


@dataclass(frozen=True)
class Companion:
    """What goes on beside a run without being a part of it; see `coevolve.runs.companions`."""

    name: str
    begin: Callable[["Run"], Coroutine[Any, Any, None]]


class Run:
    """Drives a run."""

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        parts: RunParts,
        *,
        store: Store,
        reader: Reader,
        labels: Mapping[str, Sequence[str]],
        display: Display,
        started: float,
        unearned: int = 0,
    ) -> None:
        self.name = config.name
        self.store = store
        self.reader = reader
        self._config = config
        self._directory = directory
        self._parts = parts
        self._display = display
        self._run_id = directory.identity().run_id
        self._supervisor = Supervisor(
            parts.supervised,
            self._note,
            restart_s=config.watchdog.restart_s,
            note_resting=self._note_resting,
            spare=parts.pool.parts,
            optional=parts.optional,
        )
        lease_s = config.store.lease_s
        self._scaling = Scaling(parts.pool, self._supervisor, store, lease_s, display.say)
        self._mailbox = Mailbox(store, consumer="launch", member="launch", lease_s=lease_s)
        self._copier = (
            RunCopier(config, directory, store=store, reader=reader, note=self._append)
            if config.store.copies
            else None
        )
        self._usage = StartUsage(started, self._reading)
        self._of_progress = progress_snapshots(reader, labels, unearned)
        self._snapshots = (self._of_progress, *_snapshots_of_totals(reader, config))
        self._waking = 0
        """The newest record of `WAKING` that was folded."""

        self.progress = self._of_progress.new()
        self.statuses_at_end: Sequence[PartStatus] = ()
        self.finished = False

    async def drive(self, stop: Stop, *companions: Companion) -> None:
        """Run until every step is taken and scored, or until ``stop``; then stop every part.

        ``companions`` is cancelled then. Raises RunError if a part cannot continue.
        """
        opened = await self._open()
        supervising = asyncio.create_task(self._supervisor.run())
        others = [
            asyncio.create_task(self._follow(stop, opened)),
            asyncio.create_task(stop.wait()),
            scaling := asyncio.create_task(self._scaling.run(opened)),
            asyncio.create_task(
                watch(
                    self._watched,
                    self.store,
                    self._config.watchdog.quiet_s,
                    self._alarm,
                )
            ),
            asyncio.create_task(
                until_unable(self.store, self.reader, opened, self._config.watchdog.unable_s)
            ),
            asyncio.create_task(
                note_replacements((*self._parts.simulators, *self._parts.services), self._note)
            ),
        ]
        beside = [
            asyncio.create_task(restart_on_failure(each.name, partial(each.begin, self)))
            for each in (*self._beside(), *companions)
        ]
        try:
            done, _ = await asyncio.wait(
                (supervising, *others), return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                await _unwrapped(task)
            if stop.is_set():
                self._display.say("stopping: finishing the current step, then writing a checkpoint")
                self._display.begin("stops")
                await self._measure(stops=True)
            scaling.cancel()
            await self._score_newest(stop, supervising)
            self.statuses_at_end = await self.statuses()
            await self._supervisor.stop()
            await _unwrapped(supervising)
            if self.finished:
                await self._append(RunFinished(steps=self.progress.step))
            if self._copier is not None:
                self._display.say(f"copying the run to {self._config.store.copies}")
                self._display.begin("copies")
                await self._copier.copy()
        finally:
            tasks = (supervising, *beside, *others)
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asyncio.gather(*tasks, return_exceptions=True)

    def _beside(self) -> Iterator[Companion]:
        yield Companion("time of the start-up", Run._time_start_up)
        if (look := self._display.look) is not None:
            yield Companion("screen", lambda run: poll_statuses(run._watched, look))
        if (copier := self._copier) is not None:
            yield Companion("copies", lambda _: copier.run())

    async def _open(self) -> int:
        """Record that the run started or resumed, and with which engines.

        Return the sequence number of the first of these records.
        """
        config = msgspec.json.encode(self._config).decode()
        first = await self.reader.scan(topic_of(RunStarted), limit=1)
        kind = RunResumed if first else RunStarted
        await lay_aside(self.reader, self._directory.path, self._display.say)
        pool = self._parts.pool
        scaled = RolloutScaled(cause="start", actors=pool.actors, engines=pool.names)
        opening = kind(run_id=self._run_id, config=config)
        opened, *_ = await self._mailbox.append(
            [opening, scaled, PartsRest(causes={})] if first else [opening, scaled]
        )
        if await is_paused(self.store):
            self._display.show(RunPaused(run_id=self._run_id), self.progress)
        return opened

    async def _follow(self, stop: Stop, opened: int) -> None:
        """Fold new records into the progress; return when the run has nothing left to do.

        A request to stop from before the record ``opened`` is ignored, and records before it are
        not shown.
        """
        through = await self._take_up()
        first_step = 0
        if not through:
            first_step, self.progress.lines = await first_left(self.reader, self._directory.metrics)
        metrics = MetricsFile(self._directory.metrics, self.progress.lines, first_step)

        def take(record: StoredRecord) -> None:
            self._take(record, metrics, shown=record.sequence >= opened)
            if record.topic == STOP and record.sequence > opened:
                stop.set()

        try:
            while not self.finished:
                before = self._waking
                through = await fold_records(self.reader, TOPICS, take, through)
                await self._measure()
                await self._write_snapshots(through)
                self.finished = self._is_finished()
                if self._waking == before:
                    await asyncio.sleep(LOOK_GATHER_S)
                    await self.store.wait(WAKING, through, IDLE_WAIT_S)
        finally:
            metrics.close()

    async def _take_up(self) -> int:
        """Take up the newest snapshot of the progress; return the sequence through which it goes.

        The metrics of its records have to be in the file already, since nothing else keeps them.
        """
        progress, through = await self._of_progress.restore()
        for each in self._snapshots[1:]:
            await each.restore()
        if kept_bytes(self._directory.metrics, progress.lines) is None:
            return 0
        self.progress = progress
        return through

    async def _write_snapshots(self, through: int) -> None:
        for each in self._snapshots:
            if snapshots := await each.due(through):
                await self._mailbox.append(snapshots)

    def _take(self, record: StoredRecord, metrics: MetricsFile, *, shown: bool) -> None:
        """Fold a record; show what it says if it is new."""
        message = decode(record)
        self.progress.fold(message)
        metrics.write(message, self.progress)
        if record.topic in WAKING:
            self._waking = record.sequence
        if shown and not isinstance(message, Stalled):
            self._display.show(message, self.progress)

    def _is_finished(self) -> bool:
        """Return whether all steps are taken and scored; a resting evaluator is not waited for."""
        steps, progress = self._config.learner.steps, self.progress
        unscored = progress.step == steps and "evaluator" in progress.degraded.parts
        return steps in progress.evaluations or unscored

    async def _score_newest(self, stop: Stop, supervising: "asyncio.Task[None]") -> None:
        """Stop the parts that training needs, and wait until the newest version is scored.

        Return earlier if the stop is asked for again, if the parts end (``supervising``), or after
        ``evaluator.at_stop_s``.
        """
        for_s = self._config.evaluator.at_stop_s
        rests = "evaluator" in self.progress.degraded.parts
        if not stop.is_set() or stop.at_once.is_set() or not for_s or rests:
            return
        engines = (part.name for part in self._parts.pool.parts)
        await self._supervisor.stop_but({"evaluator", *engines})
        version = await newest_of(self.reader, PolicyVersion)
        if version is None or not version.version:
            return
        if version.version in self.progress.evaluations or not is_due(version, self._config):
            return
        self._display.say(
            f"scoring version {version.version}, for at most {for_s:.0f} s; stop again to skip that"
        )
        self._display.begin(f"scores version {version.version}")
        stop.scores(for_s)
        scored = asyncio.create_task(self._scored(version.version))
        skipped = asyncio.create_task(stop.at_once.wait())
        await asyncio.wait(
            (scored, skipped, supervising), timeout=for_s, return_when=asyncio.FIRST_COMPLETED
        )
        scored.cancel()
        skipped.cancel()
        stop.scores(0.0)

    async def _scored(self, version: int) -> None:
        """Return when the progress has the scores of a version."""
        while version not in self.progress.evaluations:  # noqa: ASYNC110 - `_follow` folds them
            await asyncio.sleep(LOOK_GATHER_S)

    async def _time_start_up(self) -> None:
        """Record the time of the first rollout of this start, and the CPU time used until then."""
        known = await self.reader.last(topic_of(Rollout))
        before = known.sequence if known else 0
        while await self.store.wait(topics_of(Rollout), before, IDLE_WAIT_S) <= before:
            pass
        self._usage.start_ends()
        await self._all_up()
        await self._usage.training_begins()

    async def _measure(self, *, stops: bool = False) -> None:
        """Record what this start used, when the last step is taken or if that is due."""
        last = self.progress.step == self._config.learner.steps
        if measured := await self._usage.measured(last=last, now=stops):
            await self._append(measured)
            self.progress.starts.fold(measured)  # which is not followed once the run has ended

    async def _all_up(self) -> None:
        """Wait until every part has started, so that start-up does not count as overhead."""
        deadline = time.monotonic() + START_UP_S
        while time.monotonic() < deadline:
            statuses = await self.statuses()
            if all(each.pid or each.part in self.progress.degraded.parts for each in statuses):
                return
            await asyncio.sleep(START_UP_PAUSE_S)

    async def statuses(self) -> Sequence[PartStatus]:
        """Return the status of each part and each simulator."""
        return await asyncio.gather(*(part.status() for part in self._watched()))

    def _watched(self) -> Sequence[SupervisedPart]:
        return (*self._supervisor.parts, *self._parts.simulators)

    async def _reading(self) -> CpuReading:
        parts = self._parts
        models = (*parts.models, *parts.pool.parts)
        others = [part for part in self._supervisor.parts if part not in models]
        return await read_cpu(models, parts.simulators, (*others, *parts.services))

    async def _note(self, failure: PartFailed) -> None:
        await self._append(failure)

    async def _note_resting(self, causes: Mapping[str, str]) -> None:
        await self._append(PartsRest(causes=dict(causes)))

    async def _alarm(self, stalled: Stalled) -> None:
        """Show the alarm before it is recorded, because the journal may be what does not answer."""
        self._display.show(stalled, self.progress)
        await noted(self._append, stalled)

    async def _append(self, message: Message) -> None:
        await self._mailbox.append([message])


def _snapshots_of_totals(reader: Reader, config: RunConfig) -> Sequence[Snapshots[Any]]:
    """Return the snapshots that the launcher writes for others."""
    return (
        evolution_snapshots(reader),
        costs_snapshots(reader, config.remembered_tasks),
        group_snapshots(reader, config.remembered_tasks),
        call_snapshots(reader),
    )


async def _unwrapped(task: asyncio.Task[Any]) -> None:
    """Await ``task``; if it raises several errors at once, raise the first."""
    try:
        await task
    except BaseExceptionGroup as group:
        raise first_error(group) from group

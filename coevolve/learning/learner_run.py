"""One call of a learner's ``run``: from recovered weights, step after step."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass

import msgspec
import structlog

from coevolve.curriculum.schedule import is_due, is_guarded
from coevolve.journal.mailbox import IDLE_WAIT_S, Delivery, Mailbox
from coevolve.journal.snapshots import Followed
from coevolve.learning.arithmetic import arithmetic
from coevolve.learning.batch import batch_metrics, trained_group
from coevolve.learning.checkpoints import CheckpointWriter
from coevolve.learning.group import BatchGroup, Group
from coevolve.learning.groups import Groups
from coevolve.learning.guard import Guard
from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer
from coevolve.learning.recovery import go_back
from coevolve.learning.turns import LearnerTurns
from coevolve.learning.versions import publish_version, remove_old_versions, whole_version
from coevolve.learning.warm_start import StagedStep, WarmStart
from coevolve.learning.weight_sync_monitor import WeightSyncMonitor
from coevolve.parts.pace import PACES
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from protocols.config import RunConfig
from protocols.errors import LearnerError
from protocols.interfaces import Files, Reader
from protocols.journal import Message
from protocols.learning import (
    PolicyRegressed,
    PolicyVersion,
    Returned,
    StepReport,
    TrainedGroup,
)
from protocols.rollouts import FailedRollout, Rollout

log = structlog.get_logger()


@dataclass(kw_only=True)
class LearnerRun:
    """The learner's state during one call of ``run``."""

    config: RunConfig
    files: Files
    history: History
    mailbox: Mailbox
    trainer: AnyTrainer
    groups: Groups
    warm_start: WarmStart
    milestones: set[int]
    guard: Followed[Guard]
    deliveries: WeightSyncMonitor
    turns: LearnerTurns
    reporter: StatusReporter
    reader: InitVar[Reader]
    last_checkpoint: InitVar[int]

    def __post_init__(self, reader: Reader, last_checkpoint: int) -> None:
        self.checkpoints = CheckpointWriter(
            self.config,
            self.files,
            trainer=self.trainer,
            reader=reader,
            append=self.mailbox.append,
            needed=self._needed_versions,
            last=last_checkpoint,
        )
        self._failed_since_s = time.monotonic()
        self.reporter.policy_version = self.trainer.step

    @property
    def held(self) -> int:
        """Return the number of records taken and not finished."""
        return len(self.mailbox.held)

    async def publish_current(self) -> None:
        """Ensure that the current weights are on disk, and version 0 is in the journal."""
        await self.deliveries.check()
        self.deliveries.published(self.trainer.step)
        newest = await self.history.newest_version()
        if newest is None or await whole_version(self.files, newest) is None:
            version = await publish_version(self.files, self.trainer, self.config)
            if newest is None:
                await self.mailbox.append([version])

    async def take_steps(self, stopping: asyncio.Event) -> None:
        """Take steps until ``stopping`` is set or the configured number is reached."""
        while self.trainer.step < self.config.learner.steps:
            started_s = time.monotonic()
            loss = await self._loss()
            step = self.trainer.step + 1
            if loss is not None and loss.action == "return":
                async with self.turns.taken(step) as has_device:
                    if not has_device:
                        return
                    await self._go_back(loss)
            else:
                if loss is not None:
                    await self.mailbox.append([loss])
                batch = await self._next_batch(stopping)
                if batch is None:
                    return
                self.reporter.waits_for(f"the engines to sleep before step {step}")
                async with self.turns.taken(step) as has_device:
                    if not has_device:
                        return
                    await self._take_step(batch, started_s)
            self.checkpoints.begin()

    async def leave_checkpoint(self) -> None:
        """Write a checkpoint unless one of this step exists."""
        self._waits_for_checkpoint()
        await self.checkpoints.leave()

    async def leave_milestone(self) -> None:
        """Let the newest version be scored if the run is stopped at it, and has trained it."""
        newest = await self.history.newest_version()
        stops = 0 < self.trainer.step < self.config.learner.steps
        if newest is None or not stops or not self.config.evaluator.at_stop_s:
            return
        if not is_due(newest, self.config):
            self.milestones.add(newest.version)
            milestone = msgspec.structs.replace(newest, kept=True, is_milestone=True)
            await self.mailbox.append([milestone])

    def _waits_for_checkpoint(self) -> None:
        self.reporter.waits_for(f"the checkpoint of step {self.trainer.step} to be written")

    async def _loss(self) -> PolicyRegressed | None:
        """Return a version's regression if it is new."""
        guard = await self.guard.follow()
        if snapshots := await self.guard.due():
            await self.mailbox.append(snapshots)
        return guard.loss()

    async def _go_back(self, loss: PolicyRegressed) -> None:
        """Take a step back to the best version, and abandon the versions after it."""
        await self.deliveries.check()
        self._waits_for_checkpoint()
        await self.checkpoints.release()
        step = self.trainer.step + 1
        self.reporter.waits_for(f"step {step} to go back to version {loss.best_version}")
        returned = Returned(
            to_version=loss.best_version,
            rate_factor=self.guard.state.rate_factor * self.config.learner.guard.rate_factor,
        )
        metrics = await go_back(self.trainer, step, returned, self.files, self.history)
        staged = await self.warm_start.take(())
        version = await self._published(staged)
        report = self._report(version, staged, metrics, returned=returned)
        await self.mailbox.append([loss, report, version])
        self.groups.abandon(range(loss.best_version + 1, step))
        self._goes_on()
        log.warning(
            "policy_regressed",
            version=loss.version,
            score=round(loss.score, 3),
            best_version=loss.best_version,
            best_score=round(loss.best_score, 3),
            rate_factor=returned.rate_factor,
        )

    async def _next_batch(self, stopping: asyncio.Event) -> tuple[Group, ...] | None:
        """Return the groups of the next step, or None if ``stopping`` is set first."""
        await self._discard()
        while not self.groups.full:
            if stopping.is_set():
                return None
            await self.deliveries.check()
            self.reporter.waits_for(
                f"complete groups ({self.groups.filled} of {self.config.learner.groups_per_step})"
            )
            for delivery in await self._take(stopping):
                message = delivery.message
                assert isinstance(message, Rollout | FailedRollout)
                self.groups.add(delivery.sequence, message)
            await self._discard()
        await self.deliveries.check()
        return self.groups.take_batch()

    async def _take(self, stopping: asyncio.Event) -> Sequence[Delivery]:
        """Return the records that arrived, or nothing as soon as ``stopping`` is set."""
        missing = max(1, self.groups.missing(self.config.rollout.group_size))
        wait_s = min(IDLE_WAIT_S, self.deliveries.left_s)
        taking = self.mailbox.take(PACES["learner"].take_limit, wait_s, at_least=missing)
        return await unless_stopped(stopping, taking) or ()

    async def _discard(self) -> None:
        """Finish complete groups that may not join the batch."""
        before = self.groups.failed_in_row
        discards = self.groups.judge()
        if not before or self.groups.failed_in_row != before + len(discards):
            self._failed_since_s = time.monotonic()  # any row of failed groups starts now
        sequences = [s for discard in discards for s in discard.sequences]
        if sequences:
            await self._finish(sequences, [discard.message for discard in discards])
        self._refuse_to_wait_for_nothing()

    def _refuse_to_wait_for_nothing(self) -> None:
        """Raise LearnerError if infrastructure failures last too long to recover by themselves."""
        config, in_row = self.config.learner, self.groups.failed_in_row
        for_s = time.monotonic() - self._failed_since_s
        if in_row >= config.groups_per_step and for_s > config.failure_timeout_s:
            raise LearnerError(
                f"step {self.trainer.step + 1} needs groups with two rollouts or more to compare; "
                f"for {for_s:.0f} s (learner.failure_timeout_s: {config.failure_timeout_s:g}) all "
                f"{in_row} failed, the last because: {self.groups.last_failure}. Fix that, "
                "then --resume"
            )

    async def _take_step(self, groups: Sequence[Group], started_s: float) -> None:
        gathered_s = time.monotonic()
        self._waits_for_checkpoint()
        saving_s = await self.checkpoints.release()
        step = self.trainer.step + 1
        self.reporter.waits_for(f"step {step} to be computed")
        trained = await self._trained(groups)
        batch = await self.history.batch_of(step, trained, self.warm_start.stage)
        metrics = await asyncio.to_thread(self.trainer.take_step, batch)
        await self.deliveries.sampled(step, metrics)
        updated_s = time.monotonic()
        records = tuple(group.record for group in batch.groups)
        staged = await self.warm_start.take(records)
        version = await self._published(staged)
        ended_s = time.monotonic()
        metrics |= batch_metrics(batch) | self.deliveries.metrics()
        metrics |= {
            "timing_s/wait": gathered_s - started_s,
            "timing_s/save_checkpoint": saving_s,
            "timing_s/update_actor": updated_s - gathered_s - saving_s,
            "timing_s/save_weights": ended_s - updated_s,
            "timing_s/step": ended_s - started_s,
            "perf/throughput": metrics["perf/total_num_tokens"] / (ended_s - started_s),
        }
        report = self._report(version, staged, metrics, records)
        await self._finish([s for group in groups for s in group.sequences], [report, version])
        self._goes_on()
        await remove_old_versions(self.files, step, self.config, self._needed_versions())
        log.info("step", step=step, score=metrics["critic/score/mean"])

    def _report(
        self,
        version: PolicyVersion,
        staged: StagedStep,
        metrics: Mapping[str, float],
        groups: tuple[TrainedGroup, ...] = (),
        returned: Returned | None = None,
    ) -> StepReport:
        """Return the report of the step that made ``version``; engines have to serve it now."""
        self.deliveries.published(version.version)
        return StepReport(
            step=version.version,
            groups=groups,
            weights_digest=version.digest,
            groups_consumed=self.groups.consumed,
            metrics={**metrics, **staged.metrics},
            stage=staged.stage,
            warm_start_ended=staged.ended,
            returned=returned,
            devices=self.config.learner.devices,
            arithmetic=arithmetic(self.config.policy),
        )

    def _goes_on(self) -> None:
        """Note that the step and its version are in the journal."""
        self.reporter.policy_version = self.trainer.step
        self.groups.stage = self.warm_start.stage

    async def _trained(self, groups: Sequence[Group]) -> tuple[BatchGroup, ...]:
        """Return the groups with all data that the next step needs."""
        shape, stage = self.history.supervision.shape, self.warm_start.stage
        records = [trained_group(each, self.config.learner, shape, stage) for each in groups]
        rollouts = ([rollout for _, rollout in group.rollouts] for group in groups)
        pairs = zip(records, rollouts, strict=True)
        return tuple([await self.history.group(*pair) for pair in pairs])

    async def _published(self, staged: StagedStep) -> PolicyVersion:
        """Write the step's version; it is a milestone if the warm start ended with the step."""
        ends = staged.ended is not None
        version = await publish_version(self.files, self.trainer, self.config, is_milestone=ends)
        self.milestones |= {version.version} if ends else set()
        return version

    def _needed_versions(self) -> set[int]:
        """Return the versions that must stay besides those that are scored by their number.

        They are milestones, or the evaluator has yet to score them, or the guard may return to
        them.
        """
        due = (each for each in range(self.trainer.step) if is_guarded(each, self.config))
        unscored = (each for each in due if not self.guard.state.is_scored(each))
        return {*self.guard.state.needed, *self.milestones, *unscored}

    async def _finish(self, sequences: Sequence[int], outputs: Sequence[Message]) -> None:
        await self.mailbox.complete(sequences, outputs)
        self.reporter.done += len(sequences)

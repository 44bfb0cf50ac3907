"""One call of a learner's ``run``: from recovered weights, step after step."""

import asyncio
import time
from collections.abc import Sequence

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
from protocols.learning import PolicyRegressed, PolicyVersion, Returned, StepReport
from protocols.rollouts import FailedRollout, Rollout

log = structlog.get_logger()


class LearnerRun:
    """The learner's state during one call of ``run``."""

    def __init__(
        self,
        config: RunConfig,
        files: Files,
        *,
        history: History,
        mailbox: Mailbox,
        trainer: AnyTrainer,
        groups: Groups,
        warm_start: WarmStart,
        milestones: set[int],
        guard: Followed[Guard],
        reader: Reader,
        deliveries: WeightSyncMonitor,
        turns: LearnerTurns,
        reporter: StatusReporter,
        last_checkpoint: int,
    ) -> None:
        self.trainer = trainer
        self._config = config
        self._files = files
        self._history = history
        self._mailbox = mailbox
        self._groups = groups
        self._warm_start = warm_start
        self._milestones = milestones
        self._guard = guard
        self._deliveries = deliveries
        self._turns = turns
        self._reporter = reporter
        self.checkpoints = CheckpointWriter(
            config,
            files,
            trainer=trainer,
            reader=reader,
            append=mailbox.append,
            needed=self._needed_versions,
            last=last_checkpoint,
        )
        self._failed_since_s = time.monotonic()
        self._reporter.policy_version = trainer.step

    @property
    def held(self) -> int:
        """Return the number of records taken and not finished."""
        return len(self._mailbox.held)

    async def publish_current(self) -> None:
        """Ensure that the current weights are on disk, and version 0 is in the journal."""
        await self._deliveries.check()
        self._deliveries.published(self.trainer.step)
        newest = await self._history.newest_version()
        if newest is None or await whole_version(self._files, newest) is None:
            version = await publish_version(self._files, self.trainer, self._config)
            if newest is None:
                await self._mailbox.append([version])

    async def take_steps(self, stopping: asyncio.Event) -> None:
        """Take steps until ``stopping`` is set or the configured number is reached."""
        while self.trainer.step < self._config.learner.steps:
            started_s = time.monotonic()
            loss = await self._loss()
            step = self.trainer.step + 1
            if loss is not None and loss.action == "return":
                async with self._turns.taken(step) as has_device:
                    if not has_device:
                        return
                    await self._go_back(loss)
            else:
                if loss is not None:
                    await self._mailbox.append([loss])
                batch = await self._next_batch(stopping)
                if batch is None:
                    return
                self._reporter.waits_for(f"the engines to sleep before step {step}")
                async with self._turns.taken(step) as has_device:
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
        newest = await self._history.newest_version()
        stops = 0 < self.trainer.step < self._config.learner.steps
        if newest is None or not stops or not self._config.evaluator.at_stop_s:
            return
        if not is_due(newest, self._config):
            self._milestones.add(newest.version)
            milestone = msgspec.structs.replace(newest, kept=True, is_milestone=True)
            await self._mailbox.append([milestone])

    def _waits_for_checkpoint(self) -> None:
        self._reporter.waits_for(f"the checkpoint of step {self.trainer.step} to be written")

    async def _loss(self) -> PolicyRegressed | None:
        """Return a version's regression if it is new."""
        guard = await self._guard.follow()
        if snapshots := await self._guard.due():
            await self._mailbox.append(snapshots)
        return guard.loss()

    async def _go_back(self, loss: PolicyRegressed) -> None:
        """Take a step back to the best version, and abandon the versions after it."""
        await self._deliveries.check()
        self._waits_for_checkpoint()
        await self.checkpoints.release()
        step = self.trainer.step + 1
        self._reporter.waits_for(f"step {step} to go back to version {loss.best_version}")
        returned = Returned(
            to_version=loss.best_version,
            rate_factor=self._guard.state.rate_factor * self._config.learner.guard.rate_factor,
        )
        metrics = await go_back(self.trainer, step, returned, self._files, self._history)
        staged = await self._warm_start.take(())
        version = await self._published(staged)
        report = StepReport(
            step=step,
            groups=(),
            weights_digest=version.digest,
            groups_consumed=self._groups.consumed,
            metrics=metrics | staged.metrics,
            stage=staged.stage,
            warm_start_ended=staged.ended,
            returned=returned,
            devices=self._config.learner.devices,
            arithmetic=arithmetic(self._config.policy),
        )
        self._deliveries.published(step)
        await self._mailbox.append([loss, report, version])
        self._groups.abandon(range(loss.best_version + 1, step))
        self._groups.stage = self._warm_start.stage
        self._reporter.policy_version = step
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
        while not self._groups.full:
            if stopping.is_set():
                return None
            await self._deliveries.check()
            self._reporter.waits_for(
                f"complete groups ({self._groups.filled} of {self._config.learner.groups_per_step})"
            )
            for delivery in await self._take(stopping):
                message = delivery.message
                assert isinstance(message, Rollout | FailedRollout)
                self._groups.add(delivery.sequence, message)
            await self._discard()
        await self._deliveries.check()
        return self._groups.take_batch()

    async def _take(self, stopping: asyncio.Event) -> Sequence[Delivery]:
        """Return the records that arrived, or nothing as soon as ``stopping`` is set."""
        missing = max(1, self._groups.missing(self._config.rollout.group_size))
        wait_s = min(IDLE_WAIT_S, self._deliveries.left_s)
        taking = self._mailbox.take(PACES["learner"].take_limit, wait_s, at_least=missing)
        return await unless_stopped(stopping, taking) or ()

    async def _discard(self) -> None:
        """Finish complete groups that may not join the batch."""
        before = self._groups.failed_in_row
        discards = self._groups.judge()
        if not before or self._groups.failed_in_row != before + len(discards):
            self._failed_since_s = time.monotonic()  # any row of failed groups starts now
        sequences = [s for discard in discards for s in discard.sequences]
        if sequences:
            await self._finish(sequences, [discard.message for discard in discards])
        self._refuse_to_wait_for_nothing()

    def _refuse_to_wait_for_nothing(self) -> None:
        """Raise LearnerError if infrastructure failures last too long to recover by themselves."""
        config, in_row = self._config.learner, self._groups.failed_in_row
        for_s = time.monotonic() - self._failed_since_s
        if in_row >= config.groups_per_step and for_s > config.failure_timeout_s:
            raise LearnerError(
                f"step {self.trainer.step + 1} needs groups with two rollouts or more to compare; "
                f"for {for_s:.0f} s (learner.failure_timeout_s: {config.failure_timeout_s:g}) all "
                f"{in_row} failed, the last because: {self._groups.last_failure}. Fix that, "
                "then --resume"
            )

    async def _take_step(self, groups: Sequence[Group], started_s: float) -> None:
        gathered_s = time.monotonic()
        self._waits_for_checkpoint()
        saving_s = await self.checkpoints.release()
        step = self.trainer.step + 1
        self._reporter.waits_for(f"step {step} to be computed")
        trained = await self._trained(groups)
        batch = await self._history.batch_of(step, trained, self._warm_start.stage)
        metrics = await asyncio.to_thread(self.trainer.take_step, batch)
        await self._deliveries.sampled(step, metrics)
        updated_s = time.monotonic()
        records = tuple(group.record for group in batch.groups)
        staged = await self._warm_start.take(records)
        version = await self._published(staged)
        ended_s = time.monotonic()
        metrics |= batch_metrics(batch) | self._deliveries.metrics() | staged.metrics
        metrics |= {
            "timing_s/wait": gathered_s - started_s,
            "timing_s/save_checkpoint": saving_s,
            "timing_s/update_actor": updated_s - gathered_s - saving_s,
            "timing_s/save_weights": ended_s - updated_s,
            "timing_s/step": ended_s - started_s,
            "perf/throughput": metrics["perf/total_num_tokens"] / (ended_s - started_s),
        }
        report = StepReport(
            step=step,
            groups=records,
            weights_digest=version.digest,
            groups_consumed=self._groups.consumed,
            metrics=metrics,
            stage=staged.stage,
            warm_start_ended=staged.ended,
            devices=self._config.learner.devices,
            arithmetic=arithmetic(self._config.policy),
        )
        self._deliveries.published(step)
        await self._finish([s for group in groups for s in group.sequences], [report, version])
        self._reporter.policy_version = step
        self._groups.stage = self._warm_start.stage
        await remove_old_versions(self._files, step, self._config, self._needed_versions())
        log.info("step", step=step, score=metrics["critic/score/mean"])

    async def _trained(self, groups: Sequence[Group]) -> tuple[BatchGroup, ...]:
        """Return the groups with all data that the next step needs."""
        shape, stage = self._history.supervision.shape, self._warm_start.stage
        records = [trained_group(each, self._config.learner, shape, stage) for each in groups]
        rollouts = ([rollout for _, rollout in group.rollouts] for group in groups)
        pairs = zip(records, rollouts, strict=True)
        return tuple([await self._history.group(*pair) for pair in pairs])

    async def _published(self, staged: StagedStep) -> PolicyVersion:
        """Write the step's version; it is a milestone if the warm start ended with the step."""
        ends = staged.ended is not None
        version = await publish_version(self._files, self.trainer, self._config, is_milestone=ends)
        self._milestones |= {version.version} if ends else set()
        return version

    def _needed_versions(self) -> set[int]:
        """Return the versions that must stay besides those that are scored by their number.

        They are milestones, or the evaluator has yet to score them, or the guard may return to
        them.
        """
        due = (each for each in range(self.trainer.step) if is_guarded(each, self._config))
        unscored = (each for each in due if not self._guard.state.is_scored(each))
        return {*self._guard.state.needed, *self._milestones, *unscored}

    async def _finish(self, sequences: Sequence[int], outputs: Sequence[Message]) -> None:
        await self._mailbox.complete(sequences, outputs)
        self._reporter.done += len(sequences)

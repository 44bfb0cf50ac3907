"""The learner: turns complete groups into optimizer steps and policy versions.

Guarantees:

- A step's report and policy version enter the journal in the transaction that finishes the step's
  rollouts. Even if processes are killed, each rollout is trained on once, and a version exists only
  if its weights are complete on disk.
- The batches depend only on the journal's order (`coevolve.learning.groups`), the weights only on
  the batches (`coevolve.learning.trainer`). A learner that was killed continues with the same next
  step, from weights that are proven to be the recorded ones (`coevolve.learning.recovery`). The
  number of its processes and the machine may change in between, and every record names both.
- If a version loses abilities of an earlier one (`coevolve.learning.guard`), the next step returns
  to the best version, with a lower learning rate, and records this in the journal.
- The learner publishes nothing from a step whose loss or gradient is not finite. It takes no step
  while an engine serves other weights than those published
  (`coevolve.learning.weight_sync_monitor`).
"""

import asyncio
import time
from collections.abc import Sequence

import msgspec
import structlog

from coevolve.curriculum.schedule import is_due, is_guarded
from coevolve.journal.codec import topics_of
from coevolve.journal.fold import fold
from coevolve.journal.mailbox import IDLE_WAIT_S, Delivery, Mailbox
from coevolve.journal.snapshots import Snapshots
from coevolve.learning.arithmetic import arithmetic
from coevolve.learning.batch import batch_metrics, trained_group
from coevolve.learning.checkpoints import CheckpointWriter
from coevolve.learning.group import BatchGroup, Group
from coevolve.learning.groups import Groups
from coevolve.learning.guard import Guard, guard_snapshots
from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer, close_trainers
from coevolve.learning.recovery import go_back, recover
from coevolve.learning.sharded.announced import AnnouncedRanks
from coevolve.learning.sharded.rpc import RankStarter
from coevolve.learning.turns import LearnerTurns
from coevolve.learning.versions import publish_version, remove_old_versions, whole_version
from coevolve.learning.warm_start import StagedStep, WarmStart
from coevolve.learning.weight_sync_monitor import WeightSyncMonitor
from coevolve.parts.pace import PACES
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import CoevolveError, LearnerError
from protocols.interfaces import Files, Reader, Store, Supervision
from protocols.journal import Message
from protocols.learning import PolicyRegressed, PolicyVersion, Returned, StepReport
from protocols.rollouts import FailedRollout, Rollout

log = structlog.get_logger()


class Learner:
    """A `protocols.interfaces.Part` that trains the policy until its steps are done."""

    def __init__(
        self,
        config: RunConfig,
        files: Files,
        *,
        store: Store,
        reader: Reader,
        takes: Sequence[type[Message]],
        supervision: Supervision,
        starter: RankStarter | None = None,
    ) -> None:
        """Train for one run; ``supervision`` is its environment's.

        With several devices, ``starter`` starts the processes of the others; by default they are
        processes of this machine.
        """
        self._topics = topics_of(*takes)
        self._config = config
        self._files = files
        self._store = store
        self._reader = reader
        self._history = History(reader, supervision)
        self._reporter = StatusReporter("learner")
        self._starter = starter and AnnouncedRanks(starter, self._reporter.waits_for)
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._session: _Session | None = None

    async def run(self) -> None:
        """Take steps until all are taken or ``stop`` is called.

        Each call starts from the journal, so it can be repeated after an error.

        Raises:
            LearnerError: The next step cannot be made.
            DeliveryError: An engine does not serve the published weights.
            CheckpointError: The weights cannot be recovered or written.
            RankError: A process of another device ended, or does not answer.
        """
        self._idle.clear()
        try:
            self._reporter.waits_for("weights to be recovered")
            session = await self._begin()
            self._session = session
            await session.take_steps(self._stopping)
            await session.leave_checkpoint()
            await session.leave_milestone()
            self._reporter.waits_for("nothing: it has ended")
        except CoevolveError as error:
            self._reporter.last_error = str(error)
            raise
        finally:
            await self._end_session()
            close_trainers()
            self._idle.set()

    async def stop(self) -> None:
        """Finish the current step, write a checkpoint, and make ``run`` return."""
        self._stopping.set()
        await self._idle.wait()

    def status(self) -> PartStatus:
        return self._reporter.report(self._session.held if self._session else 0)

    def cpu_s(self) -> float:
        """Return the CPU seconds spent inside the model since the last ``run``."""
        return self._session.trainer.cpu_s() if self._session else 0.0

    async def _end_session(self) -> None:
        if self._session is not None:
            await self._session.checkpoints.close()

    async def _begin(self) -> "_Session":
        """Recover the weights, publish version 0 if there is none, and return the session."""
        mailbox = Mailbox(
            self._store,
            consumer="learner",
            topics=self._topics,
            member="learner",
            lease_s=self._config.store.lease_s,
        )
        turns = LearnerTurns(
            self._config,
            stopping=self._stopping,
            store=self._store,
            reader=self._reader,
            append=mailbox.append,
        )
        await mailbox.take_seat()
        async with turns.recovering():
            recovered = await recover(self._config, self._files, self._history, self._starter)
        trainer, checkpoint = recovered.trainer, recovered.checkpoint
        deliveries = WeightSyncMonitor(self._config, reader=self._reader, append=mailbox.append)
        warm_start = await WarmStart.resumed(self._config.learner.warm_start, self._history)
        guard_records = guard_snapshots(self._reader, self._config.learner)
        guard, guarded_through = await guard_records.folded()
        session = _Session(
            self._config,
            self._files,
            history=self._history,
            mailbox=mailbox,
            trainer=trainer,
            groups=Groups(
                self._config.learner,
                step=trainer.step + 1,
                consumed=await self._history.groups_consumed(),
                replaced=await self._history.replaced_since_last_step(),
                abandoned=guard.abandoned,
                shape=self._history.supervision.shape,
                stage=warm_start.stage,
            ),
            warm_start=warm_start,
            milestones=await self._history.milestones(),
            guard=guard,
            guarded_through=guarded_through,
            guard_records=guard_records,
            reader=self._reader,
            deliveries=deliveries,
            turns=turns,
            standing=self._reporter,
            last_checkpoint=checkpoint.step if checkpoint else 0,
        )
        await session.publish_current()
        await session.checkpoints.remove_leftovers()
        if recovered.to_rounding:
            await session.leave_checkpoint()
        return session


class _Session:
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
        guard: Guard,
        guarded_through: int,
        guard_records: Snapshots[Guard],
        reader: Reader,
        deliveries: WeightSyncMonitor,
        turns: LearnerTurns,
        standing: StatusReporter,
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
        self._guarded_through = guarded_through
        self._guard_records = guard_records
        self._reader = reader
        self._deliveries = deliveries
        self._turns = turns
        self._reporter = standing
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
        self._guarded_through = await fold(
            self._reader, self._guard_records.topics, self._guard.fold, after=self._guarded_through
        )
        if snapshots := await self._guard_records.due(self._guarded_through):
            await self._mailbox.append(snapshots)
        return self._guard.loss()

    async def _go_back(self, loss: PolicyRegressed) -> None:
        """Take a step back to the best version, and abandon the versions after it."""
        await self._deliveries.check()
        self._waits_for_checkpoint()
        await self.checkpoints.release()
        step = self.trainer.step + 1
        self._reporter.waits_for(f"step {step} to go back to version {loss.best_version}")
        returned = Returned(
            to_version=loss.best_version,
            rate_factor=self._guard.rate_factor * self._config.learner.guard.rate_factor,
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
        unscored = (each for each in due if not self._guard.is_scored(each))
        return {*self._guard.needed, *self._milestones, *unscored}

    async def _finish(self, sequences: Sequence[int], outputs: Sequence[Message]) -> None:
        await self._mailbox.complete(sequences, outputs)
        self._reporter.done += len(sequences)

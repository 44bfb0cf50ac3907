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

from coevolve.journal.snapshots import Followed
from coevolve.learning.groups import Groups
from coevolve.learning.guard import guard_snapshots
from coevolve.learning.history import History
from coevolve.learning.learner_run import LearnerRun
from coevolve.learning.opening import close_trainers
from coevolve.learning.recovery import recover
from coevolve.learning.sharded.announced import AnnouncedRanks
from coevolve.learning.sharded.rpc import RankStarter
from coevolve.learning.turns import LearnerTurns
from coevolve.learning.warm_start import WarmStart
from coevolve.learning.weight_sync_monitor import WeightSyncMonitor
from coevolve.parts.context import PartContext
from coevolve.parts.status import StatusReporter
from protocols.control import PartStatus
from protocols.errors import CoevolveError
from protocols.interfaces import Supervision


class Learner:
    """A `protocols.interfaces.Part` that trains the policy until its steps are done."""

    def __init__(
        self,
        context: PartContext,
        *,
        supervision: Supervision,
        starter: RankStarter | None = None,
    ) -> None:
        """Train for one run; ``supervision`` is its environment's.

        With several devices, ``starter`` starts the processes of the others; by default they are
        processes of this machine.
        """
        self._context = context
        self._config = context.config
        self._files = context.files
        self._reader = context.reader
        self._history = History(context.reader, supervision)
        self._reporter = StatusReporter("learner")
        self._starter = starter and AnnouncedRanks(starter, self._reporter.waits_for)
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._session: LearnerRun | None = None

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

    async def _begin(self) -> "LearnerRun":
        """Recover the weights, publish version 0 if there is none, and return the session."""
        mailbox = self._context.mailbox("learner", takes=self._context.takes)
        turns = LearnerTurns(self._context, self._stopping, mailbox.append)
        await mailbox.take_seat()
        async with turns.recovering():
            recovered = await recover(self._config, self._files, self._history, self._starter)
        trainer, checkpoint = recovered.trainer, recovered.checkpoint
        deliveries = WeightSyncMonitor(self._config, reader=self._reader, append=mailbox.append)
        warm_start = await WarmStart.resumed(self._config.learner.warm_start, self._history)
        guard = Followed(guard_snapshots(self._reader, self._config.learner))
        await guard.follow()
        session = LearnerRun(
            config=self._config,
            files=self._files,
            history=self._history,
            mailbox=mailbox,
            trainer=trainer,
            groups=Groups(
                self._config.learner,
                step=trainer.step + 1,
                consumed=await self._history.groups_consumed(),
                replaced=await self._history.replaced_since_last_step(),
                abandoned=guard.state.abandoned,
                shape=self._history.supervision.shape,
                stage=warm_start.stage,
            ),
            warm_start=warm_start,
            milestones=await self._history.milestones(),
            guard=guard,
            reader=self._reader,
            deliveries=deliveries,
            turns=turns,
            reporter=self._reporter,
            last_checkpoint=checkpoint.step if checkpoint else 0,
        )
        await session.publish_current()
        await session.checkpoints.remove_leftovers()
        if recovered.to_rounding:
            await session.leave_checkpoint()
        return session

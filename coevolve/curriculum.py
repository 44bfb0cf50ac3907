"""The curriculum: decides which task is attempted next, and how much may be in flight.

Back-pressure: groups that were requested and are not consumed (trained on or discarded) never
exceed `coevolve.config.most_groups_in_flight`, so no group grows too old while it waits its turn.
The n-th group is a function of the run's seed and n alone: a curriculum that is killed goes on with
the group that it would have asked for.
"""

import asyncio
from collections.abc import Sequence

import numpy as np

from coevolve.config import most_groups_in_flight
from coevolve.journal.codec import decode_as
from coevolve.journal.mailbox import Mailbox
from coevolve.run.standing import Standing
from coevolve.run.stopping import unless_stopped
from protocols.config import RunConfig
from protocols.control import PartStatus, RunResumed, RunStarted
from protocols.interfaces import Reader, Store, TaskSource
from protocols.journal import Message
from protocols.learning import GroupDiscarded, StepReport
from protocols.rollouts import RolloutRequest

TAKE_WAIT_S = 30.0
TAKE_LIMIT = 256


class Curriculum:
    """A `protocols.interfaces.Part`: answers progress of the learner with rollout requests."""

    def __init__(
        self, config: RunConfig, *, store: Store, reader: Reader, source: TaskSource
    ) -> None:
        self._config = config
        self._reader = reader
        self._source = source
        self._room = config.tasks.in_flight_groups or most_groups_in_flight(config)
        self._mailbox = Mailbox(
            store,
            consumer="curriculum",
            topics=("run_started", "run_resumed", "step_report", "group_discarded"),
            member="curriculum",
            lease_s=config.store.lease_s,
        )
        self._standing = Standing("curriculum")
        self._stopping = asyncio.Event()
        self._issued = 0
        self._consumed = 0
        self._steps = 0

    async def run(self) -> None:
        """Keep the rollout actors in work until stopped."""
        await self._rebuild()
        await unless_stopped(self._stopping, self._react())

    async def stop(self) -> None:
        """Ask for no further rollouts and make ``run`` return."""
        self._stopping.set()

    def status(self) -> PartStatus:
        """Say what the part is doing."""
        return self._standing.report(self._issued - self._consumed)

    async def _react(self) -> None:
        while True:
            self._standing.waits_for(
                f"the learner to consume groups ({self._issued - self._consumed} of {self._room} "
                "in flight)"
            )
            deliveries = await self._mailbox.take(TAKE_LIMIT, TAKE_WAIT_S)
            if not deliveries:
                continue
            outputs = [output for each in deliveries for output in self._take_in(each.message)]
            issued = self._issued
            while issued < self._may_issue():
                outputs.extend(self._group(issued))
                issued += 1
            await self._mailbox.complete([each.sequence for each in deliveries], outputs)
            self._issued = issued
            self._standing.done += len(deliveries)

    def _take_in(self, message: Message) -> Sequence[Message]:
        """Count what a record says; return what it calls for besides further groups."""
        match message:
            case RunStarted():
                return self._source.pool()
            case RunResumed():
                return ()
            case StepReport(step=step, groups_consumed=consumed):
                self._consumed = max(self._consumed, consumed)
                self._steps = max(self._steps, step)
                return ()
            case GroupDiscarded(groups_consumed=consumed):
                self._consumed = max(self._consumed, consumed)
                return ()
            case other:
                raise TypeError(f"the curriculum does not take {type(other).__name__}")

    async def _rebuild(self) -> None:
        """Count from the journal what was asked for and what is consumed."""
        request = await self._reader.last("rollout_request")
        step = await self._reader.last("step_report")
        discarded = await self._reader.last("group_discarded")
        self._issued = decode_as(request, RolloutRequest).group + 1 if request else 0
        report = decode_as(step, StepReport) if step else None
        self._steps = report.step if report else 0
        self._consumed = max(
            report.groups_consumed if report else 0,
            decode_as(discarded, GroupDiscarded).groups_consumed if discarded else 0,
        )

    def _may_issue(self) -> int:
        """Return how many groups may have been asked for by now.

        Bounded by what may be in flight, and by what the configured steps can still use: their
        batches, and one more for each group that was discarded.
        """
        per_step = self._config.learner.groups_per_step
        discarded = self._consumed - self._steps * per_step
        needed = self._config.learner.steps * per_step + discarded
        return min(self._consumed + self._room, needed)

    def _group(self, number: int) -> Sequence[Message]:
        rng = np.random.default_rng([self._config.seed, number])
        task, is_new = self._source.draw(number)
        size = self._config.rollout.group_size
        requests = [
            RolloutRequest(
                group_id=f"g{number}",
                group=number,
                index=index,
                group_size=size,
                task_id=task.task_id,
                purpose="train",
                seed=int(seed),
                policy_version_at_least=self._steps,
            )
            for index, seed in enumerate(rng.integers(0, 2**31, size))
        ]
        return [task, *requests] if is_new else requests

"""The curriculum: decides which task is attempted next, and how much may be in flight.

Guarantees:

- Every group is requested once, and group numbers are consecutive. `Schedule` decides how many
  groups may be requested: never more than staleness allows, and none while the run is paused.
- The tasks come from the environment's `TaskSampler`: for example a fresh task for every group in
  the arm ``uniform``, a seed task in ``static``, and a draw from `Pool` in the other arms. The
  seeds of group n depend only on the run's seed and n.
- All state is a fold of the journal up to a sequence. The same code computes it after a start and
  after each delivery, so a curriculum that was killed continues with the same next group. It takes
  its seat before it reads the journal. After that, no predecessor can request a group that it does
  not see.

Only records that can lead to further groups wake the curriculum. It reads the many summaries,
signals and verdicts when it chooses a group. They wake it only while a cycle is being settled.
"""

import time
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import structlog

from coevolve.curriculum.group_requests import group_requests
from coevolve.curriculum.held_out import HeldOut
from coevolve.curriculum.schedule import Schedule
from coevolve.curriculum.state import CurriculumState, curriculum_snapshots
from coevolve.curriculum.task_sampler import Draw, TaskSampler
from coevolve.journal.codec import TASKS_BY_ID
from coevolve.journal.fold import fold
from coevolve.journal.mailbox import IDLE_WAIT_S, Delivery
from coevolve.journal.snapshots import Snapshots
from coevolve.journal.task_cache import TaskCache, unread
from coevolve.parts.context import PartContext
from coevolve.parts.worker import Worker
from protocols.control import PartStatus, RunStarted
from protocols.errors import ContractError
from protocols.journal import Message
from protocols.tasks import Task

_INSTANCE_STREAM = 11

Instantiate = Callable[[Task, int], Awaitable[Task | None]]
"""Returns the instance of a task that a number determines; None if it has none."""

MAX_KNOWN = 10_000
"""Number of tasks of which it remembers that the journal has them; it looks up any other."""

log = structlog.get_logger()


class Curriculum:
    """A `protocols.interfaces.Part` that requests rollouts according to the learner's progress."""

    _snapshots: Snapshots[CurriculumState]
    _state: CurriculumState
    _read_through: int

    def __init__(
        self,
        context: PartContext,
        *,
        open_sampler: Callable[[], TaskSampler],
        held_out: Sequence[Task] = (),
        instantiate: Instantiate | None = None,
    ) -> None:
        """Work for one run. ``open_sampler`` returns a new sampler without any folded records.

        With ``instantiate``, each group attempts a new instance of its task, if it has one.

        The curriculum never lets a task of ``held_out`` be trained on, under any id.
        """
        self._config = context.config
        self._store = context.store
        self._reader = context.reader
        self._open_sampler = open_sampler
        self._held_out = HeldOut(held_out)
        self._instantiate = instantiate
        self._worker = Worker("curriculum", context)
        self.stop = self._worker.stop
        self._tasks = TaskCache(context.reader, unread)
        self._unwritten: dict[str, Task] = {}
        """Tasks by id that the journal does not have yet."""

        self._known: set[str] = set()
        self._over_since: float | None = None
        self._schedule = Schedule.of(context.config)

    async def run(self) -> None:
        """Keep the rollout actors busy until stopped, and request nothing after that.

        Each call starts from the journal, so it can be repeated after an error.
        """
        await self._worker.run(self._work)

    def status(self) -> PartStatus:
        """Return the part's status; its mailbox is the number of groups in flight."""
        return self._worker.reporter.report(self._schedule.issued - self._schedule.consumed)

    async def _work(self) -> None:
        """Take the state from the journal, then request groups whenever further ones may be."""
        mailbox = self._worker.mailbox
        await mailbox.take_seat()
        self._snapshots = curriculum_snapshots(self._reader, self._config, self._open_sampler)
        self._state, self._read_through = await self._snapshots.restore()
        self._schedule = self._state.schedule
        self._unwritten.clear()
        self._known.clear()
        self._over_since = None
        deliveries = await mailbox.take(self._worker.pace.take_limit, 0.0)
        while True:
            await self._answer(deliveries)
            self._report_waiting()
            deliveries = await self._next_deliveries()

    async def _answer(self, deliveries: Sequence[Delivery]) -> None:
        """Finish ``deliveries``, together with the group requests that are now allowed."""
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        self._read_through = await fold(
            self._reader, self._snapshots.topics, self._note, after=self._read_through
        )
        outputs: list[Message] = [*await self._snapshots.due(self._read_through)]
        if any(isinstance(delivery.message, RunStarted) for delivery in deliveries):
            opening = self._state.sampler.opening()
            outputs.extend(opening)
            for task in opening:
                self._note(task)
                if isinstance(task, Task):
                    self._unwritten[task.task_id] = task
        go_on = self._may_go_on()
        if go_on:
            self._state.sampler.join()
        while self._schedule.issued < self._schedule.may_be_issued(go_on=go_on):
            group = await self._group(self._schedule.issued)
            for message in group:
                self._note(message)
            outputs.extend(group)
        self._held_out.refuse(outputs)
        if deliveries or outputs:
            await self._worker.mailbox.complete([each.sequence for each in deliveries], outputs)
        self._unwritten.clear()
        self._worker.reporter.done += len(deliveries)

    def _note(self, message: Message) -> None:
        if isinstance(message, Task):
            self._known.add(message.task_id)
        self._state.fold(message)

    def _may_go_on(self) -> bool:
        """Return whether the next cycle may begin; has no effect without cycles."""
        if not self._schedule.is_cycle_over or self._schedule.is_paused:
            self._over_since = None
            return False
        if self._over_since is None:
            self._over_since = time.monotonic()
        if self._schedule.is_settled:
            return True
        if self._left_s() > 0:
            return False
        log.warning(
            "training continues without tasks that are still being made",
            step=self._schedule.steps,
            waited_s=self._config.evolve_wait_s,
            open=self._schedule.open_work(),
        )
        return True

    def _left_s(self) -> float:
        """Return how long training still waits for the cycle to settle."""
        since = time.monotonic() if self._over_since is None else self._over_since
        return since + self._config.evolve_wait_s - time.monotonic()

    async def _next_deliveries(self) -> Sequence[Delivery]:
        """Return the next deliveries; possibly none, if a cycle must be checked again."""
        if self._over_since is None or not self._schedule.is_cycle_over:
            return await self._worker.mailbox.take(self._worker.pace.take_limit)
        wait_s = min(IDLE_WAIT_S, max(0.0, self._left_s()))
        await self._store.wait(self._snapshots.topics, self._read_through, wait_s)
        return await self._worker.mailbox.take(self._worker.pace.take_limit, 0.0)

    def _report_waiting(self) -> None:
        counts = self._schedule
        flying = f"{counts.issued - counts.consumed} of {counts.room} in flight"
        if counts.is_paused:
            self._worker.reporter.waits_for(f"the pause to end ({flying})")
        elif counts.is_cycle_over:
            self._worker.reporter.waits_for(
                f"what the steps up to {counts.steps} set in motion: {counts.open_work()}"
            )
        else:
            self._worker.reporter.waits_for(f"the learner to consume groups ({flying})")

    async def _group(self, number: int) -> Sequence[Message]:
        """Return a group's requests, preceded by its task if the journal does not have it yet."""
        draw = self._state.sampler.task(number)
        self._unwritten |= {each.task_id: each for each in draw.news if isinstance(each, Task)}
        await self._check_known(draw)
        instance, made = await self._instance(draw, number)
        requests = group_requests(
            self._config,
            number,
            draw.task_id,
            version=self._schedule.steps,
            author=draw.writer,
            instance=instance,
            imitable=draw.imitable,
        )
        return [*draw.news, *made, *requests]

    async def _instance(self, draw: Draw, number: int) -> tuple[int, Sequence[Task]]:
        """Return the instance that the policy attempts, and its task; (0, ()) for the given one."""
        if self._instantiate is None or draw.writer != "policy":
            return 0, ()
        task = self._unwritten.get(draw.task_id) or await self._tasks.get(draw.task_id)
        rng = np.random.default_rng((self._config.seed, _INSTANCE_STREAM, number))
        instance = int(rng.integers(1, 2**31))
        made = await self._instantiate(task, instance)
        return (instance, (made,)) if made else (0, ())

    async def _check_known(self, draw: Draw) -> None:
        """Raise ContractError if a group's task is neither in the journal nor about to be."""
        self._known.update(each.task_id for each in draw.news if isinstance(each, Task))
        if draw.task_id in self._known:
            return
        if await self._reader.find(TASKS_BY_ID, draw.task_id, limit=1):
            self._known.add(draw.task_id)
            return
        raise ContractError(
            f"task {draw.task_id!r}: the environment's sampler() draws it, but it is neither among "
            "the tasks that the run opens with nor among the draw's news"
        )

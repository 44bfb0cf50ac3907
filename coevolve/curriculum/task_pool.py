"""The task pool: every task that may be drawn, with the policy's results on it and its weight.

A pure fold over the journal: the same messages in the same order give the same pool in every
process. A seed task joins with its `Task`. A synthesized task joins with the verdict that admits it
(with ``evolve_every``, when the next cycle's first group is requested).

**Weight** of a synthesized task, relative to the others::

    weight = (4 E[p (1 - p)] + imitation) * novelty

- ``4 E[p (1 - p)]``, the expected learnability, 0..1. The group-normalised advantage of a task
  vanishes if all rollouts succeed or all fail, and its variance is p (1 - p). p has the posterior
  Beta(1 + successes, 1 + failures). The validator's probes are the first evidence. With each
  further visit all older evidence counts half, because the policy changes.
- ``imitation`` = 0.5 * 0.5 ** visits while no rollout has ever solved the task and the learner
  imitates its reference; else 0. An unsolved task then teaches its reference, about as much as a
  learnable one teaches by comparison. If two or three imitations were not enough, the task is too
  hard for now. Weights that favour failure let hopeless tasks crowd out the others (a pilot lost
  most of its groups to them).
- ``novelty`` = 4 before the first visit, then 1 / (1 + visits). Every admitted task is soon visited
  once, and its weight is learnt from this visit. Later visits lower the weight, because fresh tasks
  improve generalization and repeated ones are memorized.

**States.** A task is retired after ``pool.retire_after`` consecutive visits in which every rollout
succeeded, because such a group has no gradient. Above ``pool.capacity`` the live synthesized task
of least weight is retired. A task whose probes all succeeded starts as retired. Retired tasks are
drawn with probability ``pool.retired_share``, to detect forgetting; a forgetting signal makes a
task live again, as if new. Above ``pool.retired_capacity`` the synthesized task that was retired or
mastered longest ago leaves the pool for good, so that the pool has a bounded size. Visits in which
every rollout was an infrastructure failure are ignored.

A visit is a group whose rollouts all attempted exactly this task, did not continue from the end
state of another rollout, and were written by the policy; rollouts of other authors do not show what
the policy has yet to learn.

**Seed tasks** are drawn uniformly, as in the arm ``static``, and are retired by the same rule. They
fill the groups while no synthesized task is available, and mastered ones would waste these groups.
All arms that synthesize retire tasks in the same way, so comparisons between them stay fair.

**Cost.** A draw, a visit and an admission take O(log n) for n tasks
(`coevolve.curriculum.task_draws`).
"""

from collections import Counter

import msgspec
import numpy as np

from coevolve.curriculum.pool_task import Life, PoolTask
from coevolve.curriculum.schedule import cycle_of
from coevolve.curriculum.task_draws import Places, UniformDraws, WeightedDraws
from coevolve.journal.codec import TASKS_BY_ID, topics_of
from protocols.config import RunConfig
from protocols.evolution import Admitted, CandidateVerdict, GroupSummary, OnTask, Signal
from protocols.journal import Message
from protocols.learning import GroupDiscarded, StepReport
from protocols.rollouts import RolloutRequest
from protocols.tasks import Seeded, Task

TOPICS = topics_of(
    Task,
    CandidateVerdict,
    GroupSummary,
    Signal,
    RolloutRequest,
    StepReport,
    GroupDiscarded,
)
"""Topics of the pool's fold."""

LEFT = 1024
"""Number of tasks that left last whose ids are known: a group on one may have been requested before
it left, and recorded after that."""


class PoolState(msgspec.Struct):
    """What `Pool` remembers."""

    tasks: dict[str, PoolTask] = {}
    """In the order of joining."""

    teaching: Places = msgspec.field(default_factory=Places)
    """The live synthesized tasks."""

    waiting: list[str] = []
    retired: dict[str, None] = {}
    """The retired synthesized tasks, the one that was retired or mastered last at the end."""

    left: dict[str, None] = {}
    """Ids of the `LEFT` tasks that left the pool last, in order."""

    in_flight: dict[int, str] = {}
    """The task of each group in flight."""

    groups: int = 0
    """Number of groups requested so far."""

    synthesized_groups: int = 0
    """Number of those groups that attempt a synthesized task."""

    cycle: int = 0
    """The open cycle."""

    opening: int = -1
    """Its first group."""


class Pool:
    """Folds the results on tasks, and draws the next task; a `coevolve.journal.snapshots.Piece`."""

    def __init__(self, config: RunConfig) -> None:
        self._rules = config.pool
        self._imitates = config.learner.imitation.weight > 0
        self._evolve_every = config.cycle_steps
        self._state = PoolState()
        self._index()

    @property
    def state(self) -> PoolState:
        """What it remembers; draws follow if it is replaced."""
        return self._state

    @state.setter
    def state(self, state: PoolState) -> None:
        self._state = state
        self._index()

    def _index(self) -> None:
        """Derive from the state what makes draws quick."""
        self._flying = Counter(self._state.in_flight.values())
        """Number of groups in flight of each task that has any."""

        self._uniform = UniformDraws()
        self._teaching = WeightedDraws(self._state.teaching)
        for task in self._state.tasks.values():
            self._note(task)

    @property
    def settings(self) -> object:
        return self._rules, self._imitates, self._evolve_every

    @property
    def keeps(self) -> list[tuple[str, str]]:
        """The made tasks of the pool, and those of which a group is in flight."""
        made = [task.task_id for task in self._state.tasks.values() if task.is_synthesized]
        return [(TASKS_BY_ID, task_id) for task_id in dict.fromkeys((*made, *self._flying))]

    @property
    def groups(self) -> int:
        """Return the number of groups requested so far."""
        return self._state.groups

    @property
    def synthesized_groups(self) -> int:
        """Return the number of those groups that attempt a synthesized task."""
        return self._state.synthesized_groups

    @property
    def live(self) -> tuple[str, ...]:
        """Return the live tasks, in the order in which they joined."""
        return tuple(task.task_id for task in self._state.tasks.values() if task.life == "live")

    @property
    def retired(self) -> tuple[str, ...]:
        """Return the tasks that are drawn only to detect forgetting, in order of joining."""
        return tuple(task.task_id for task in self._state.tasks.values() if task.life == "retired")

    def task(self, task_id: str) -> PoolTask:
        """Return the state of a task. Raises KeyError if the pool has no such task."""
        return self._state.tasks[task_id]

    def life(self, task_id: str) -> Life | None:
        """Return the state of a task in a word; None if the pool has no such task."""
        task = self._state.tasks.get(task_id)
        return task.life if task else None

    def __len__(self) -> int:
        return len(self._state.tasks)

    def weights(self) -> dict[str, float]:
        """Return the weight of every live synthesized task."""
        return {name: self._weight(self.task(name)) for name in self._teaching.ids()}

    def fold(self, message: Message) -> None:
        match message:
            case Task(origin=Seeded(), split="train", task_id=task_id):
                self._add(PoolTask(task_id, is_synthesized=False))
            case CandidateVerdict(outcome=Admitted() as admitted, reading=reading):
                self._admit(admitted, is_read=reading.outcome == "confirmed")
            case GroupSummary(root=root, author="policy") if message.task_id == root:
                self._visit(root, message)
            case Signal(kind="forgetting", about=OnTask(task_id=task_id)):
                self._revive(task_id)
            case RolloutRequest(index=0):
                self._ask(message)
            case StepReport():
                self._train(message)
            case GroupDiscarded(group=group):
                self._land(group)
            case _:
                pass

    def join(self) -> None:
        """Add the waiting tasks to the pool; tasks that are already mastered join as retired.

        Call this before the first group of a cycle is drawn. When that group is folded from the
        journal, it happens automatically.
        """
        for task in map(self.task, self._state.waiting):
            if task.mastered >= self._rules.retire_after:
                self._retire(task)
            else:
                self._enliven(task)
        self._state.waiting.clear()

    def draw(self, generator: np.random.Generator) -> str:
        """Return the id of the task for the next group.

        Draws no task in flight, unless only seed tasks in flight are left. Synthesized tasks,
        including retired ones, never exceed ``pool.synthetic_share`` of all groups so far. Raises
        ValueError if the pool has no seed task.
        """
        return self.draw_made(generator) or self._draw_seed(generator)

    def draw_made(self, generator: np.random.Generator) -> str | None:
        """Return the id of a synthesized or retired task; None if a seed task should be drawn."""
        may_synthesize = self._state.synthesized_groups + 1 <= self._rules.synthetic_share * (
            self._state.groups + 1
        )
        if generator.random() < self._rules.retired_share:
            retired = self._uniform.retired(generator, seeds_only=not may_synthesize)
            if retired is not None:
                return retired
        return self._teaching.draw(generator) if may_synthesize else None

    def _draw_seed(self, generator: np.random.Generator) -> str:
        seed = self._uniform.seed(generator)
        if seed is None:
            raise ValueError("a draw needs a seed task in the pool, found none")
        return seed

    def _admit(self, admitted: Admitted, *, is_read: bool) -> None:
        task = PoolTask(
            admitted.task_id,
            is_synthesized=True,
            life="waiting",
            successes=admitted.probe_successes,
            failures=admitted.probe_rollouts - admitted.probe_successes,
            is_solved=admitted.probe_successes > 0,
            is_read=is_read,
            mastered=self._rules.retire_after if admitted.label == "mastered" else 0,
        )
        if self._add(task):
            self._state.waiting.append(task.task_id)
        if not self._evolve_every:
            self.join()

    def _add(self, task: PoolTask) -> bool:
        """Let a task join; return whether its id is new."""
        if task.task_id in self._state.tasks:
            return False
        self._state.tasks[task.task_id] = task
        self._note(task)
        return True

    def _enliven(self, task: PoolTask) -> None:
        """Make a task live, as if never visited; above capacity, retire another one."""
        task.life, task.visits, task.mastered = "live", 0, 0
        self._state.retired.pop(task.task_id, None)
        if task.is_synthesized:
            self._teaching.add(task.task_id)
        self._note(task)
        if len(self._teaching) > self._rules.capacity:
            self._retire(self._state.tasks[self._teaching.least()])

    def _retire(self, task: PoolTask) -> None:
        task.life = "retired"
        self._teaching.remove(task.task_id)
        self._note(task)
        if task.is_synthesized:
            self._state.retired.pop(task.task_id, None)
            self._state.retired[task.task_id] = None
            if len(self._state.retired) > self._rules.retired_capacity:
                self._leave(next(iter(self._state.retired)))

    def _leave(self, task_id: str) -> None:
        """Let a retired synthesized task leave the pool for good."""
        del self._state.retired[task_id], self._state.tasks[task_id]
        self._uniform.forget(task_id)
        self._state.left[task_id] = None
        if len(self._state.left) > LEFT:
            del self._state.left[next(iter(self._state.left))]

    def _note(self, task: PoolTask) -> None:
        """Let draws know a task's state; call this after every change of it."""
        is_free = task.task_id not in self._flying
        is_retired = task.life == "retired"
        if task.is_synthesized:
            self._teaching.note(task.task_id, self._weight(task), is_free=is_free)
            self._uniform.note_made(task.task_id, is_retired=is_retired, is_free=is_free)
        else:
            self._uniform.note_seed(task.task_id, is_retired=is_retired, is_free=is_free)

    def _visit(self, task_id: str, visit: GroupSummary) -> None:
        task = self._state.tasks.get(task_id)
        if task is None or not visit.rollouts:
            return
        task.visited(visit.successes, visit.rollouts)
        if task.life != "waiting" and task.mastered >= self._rules.retire_after:
            self._retire(task)
        else:
            self._note(task)

    def _revive(self, task_id: str) -> None:
        task = self._state.tasks.get(task_id)
        if task is not None and task.life == "retired":
            self._enliven(task)

    def _ask(self, request: RolloutRequest) -> None:
        """Note a requested group; if it is the first group of a cycle, open the cycle."""
        if request.group >= self._state.groups:
            cycle = cycle_of(request, self._evolve_every)
            if cycle > self._state.cycle:
                self._state.cycle, self._state.opening = cycle, request.group
            task = self._state.tasks.get(request.task_id)
            self._launch(request)
            self._state.groups = request.group + 1
            is_made = task.is_synthesized if task else request.task_id in self._state.left
            self._state.synthesized_groups += is_made
        if request.group == self._state.opening:
            self.join()  # includes tasks admitted between the decision and its record

    def _launch(self, request: RolloutRequest) -> None:
        self._state.in_flight[request.group] = request.task_id
        self._flying[request.task_id] += 1
        if request.task_id in self._state.tasks:
            self._note(self._state.tasks[request.task_id])

    def _land(self, group: int) -> None:
        """Note that a group is no longer in flight, if it was."""
        task_id = self._state.in_flight.pop(group, None)
        if task_id is None:
            return
        self._flying[task_id] -= 1
        if not self._flying[task_id]:
            del self._flying[task_id]
        if task_id in self._state.tasks:
            self._note(self._state.tasks[task_id])

    def _train(self, report: StepReport) -> None:
        for group in report.groups:
            self._land(group.group)

    def _weight(self, task: PoolTask) -> float:
        return task.weight(imitates=self._imitates)

"""A slow, independent pool: lists that every draw and every admission walks through."""

import numpy as np

from coevolve.curriculum.pool_task import PoolTask
from protocols.config import RunConfig
from protocols.evolution import Admitted, CandidateVerdict, GroupSummary, OnTask, Signal
from protocols.journal import Message
from protocols.learning import GroupDiscarded
from protocols.rollouts import RolloutRequest
from protocols.tasks import Task


class PlainPool:
    """Folds and draws like `coevolve.curriculum.task_pool.Pool` without cycles, in plain lists."""

    def __init__(self, config: RunConfig) -> None:
        self._rules = config.pool
        self._imitates = config.learner.imitation.weight > 0
        self._tasks: list[PoolTask] = []
        self._teaching: list[PoolTask] = []
        self._retired: list[PoolTask] = []
        """The synthesized ones, in the order in which they were last retired."""

        self._flying: dict[int, str] = {}
        self._groups = self._made_groups = 0

    def fold(self, message: Message) -> None:
        match message:
            case Task(task_id=task_id) if not self._known(task_id):
                self._tasks.append(PoolTask(task_id, is_synthesized=False))
            case CandidateVerdict(outcome=Admitted() as admitted, reading=reading):
                self._admit(admitted, is_read=reading.outcome == "confirmed")
            case GroupSummary(task_id=task_id):
                self._visit(self._known(task_id), message)
            case Signal(kind="forgetting", about=OnTask(task_id=task_id)):
                self._revive(self._known(task_id))
            case RolloutRequest():
                self._flying[message.group] = message.task_id
                self._groups += 1
                self._made_groups += not message.task_id.startswith("s")
            case GroupDiscarded(group=group):
                self._flying.pop(group, None)
            case _:
                raise AssertionError(message)

    def draw(self, generator: np.random.Generator) -> str:
        allowed = self._made_groups + 1 <= self._rules.synthetic_share * (self._groups + 1)
        if generator.random() < self._rules.retired_share:
            retired = [
                task
                for task in self._free(self._tasks)
                if task.life == "retired" and (allowed or not task.is_synthesized)
            ]
            if retired:
                return _one_of(retired, generator)
        made = self._free(self._teaching)
        if made and allowed:
            weights = np.array([self._weight(task) for task in made])
            return made[int(generator.choice(len(made), p=weights / weights.sum()))].task_id
        seeds = [task for task in self._tasks if not task.is_synthesized]
        live = [task for task in seeds if task.life == "live"] or seeds
        return _one_of(self._free(live) or live, generator)

    def _admit(self, admitted: Admitted, *, is_read: bool) -> None:
        task = PoolTask(
            admitted.task_id,
            is_synthesized=True,
            successes=admitted.probe_successes,
            failures=admitted.probe_rollouts - admitted.probe_successes,
            is_solved=admitted.probe_successes > 0,
            is_read=is_read,
        )
        self._tasks.append(task)
        if admitted.label == "mastered":
            task.mastered = self._rules.retire_after
            self._retire(task)
        else:
            self._enliven(task)

    def _visit(self, tasks: list[PoolTask], visit: GroupSummary) -> None:
        for task in tasks:
            task.visited(visit.successes, visit.rollouts)
            if task.mastered >= self._rules.retire_after:
                self._retire(task)

    def _revive(self, tasks: list[PoolTask]) -> None:
        for task in tasks:
            if task.life == "retired":
                self._enliven(task)

    def _enliven(self, task: PoolTask) -> None:
        task.life, task.visits, task.mastered = "live", 0, 0
        if task.is_synthesized:
            self._teaching.append(task)
        self._retired = [each for each in self._retired if each is not task]
        if len(self._teaching) > self._rules.capacity:
            self._retire(min(self._teaching, key=self._weight))

    def _retire(self, task: PoolTask) -> None:
        task.life = "retired"
        if task in self._teaching:
            self._teaching.remove(task)
        if task.is_synthesized:
            self._retired = [*(each for each in self._retired if each is not task), task]
        if len(self._retired) > self._rules.retired_capacity:
            self._tasks.remove(self._retired.pop(0))

    def _known(self, task_id: str) -> list[PoolTask]:
        return [task for task in self._tasks if task.task_id == task_id]

    def _free(self, tasks: list[PoolTask]) -> list[PoolTask]:
        return [task for task in tasks if task.task_id not in self._flying.values()]

    def _weight(self, task: PoolTask) -> float:
        return task.weight(imitates=self._imitates)


def _one_of(tasks: list[PoolTask], generator: np.random.Generator) -> str:
    return tasks[int(generator.integers(len(tasks)))].task_id

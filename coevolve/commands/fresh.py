"""Compares success on tasks with success on further instances of the same tasks."""

from collections.abc import Mapping, Sequence
from itertools import islice
from math import hypot, sqrt
from statistics import fmean, stdev
from typing import Protocol

import msgspec
import numpy as np
from rich.table import Table

from coevolve.environments.interface import Environment
from coevolve.history.directory import RunDirectory
from coevolve.history.score import NORMAL, Score, score_of
from coevolve.journal.lookups import all_of
from coevolve.journal.reader import run_reader
from coevolve.journal.task_cache import TaskCache, unread
from coevolve.rollouts.trained_tasks import trained_on
from protocols.errors import ConfigError
from protocols.learning import StepReport, TaskScore
from protocols.tasks import NEW_TASKS, Task


class Scoring(Protocol):
    """Scores one policy on tasks (`coevolve.commands.scoring.Scoring`)."""

    @property
    def environment(self) -> Environment:
        """The environment of the tasks."""
        ...

    async def of(self, tasks: Sequence[Task]) -> Sequence[TaskScore]:
        """Return the score of each task, in order."""
        ...

    async def instances(self, tasks: Sequence[Task], seed: int) -> Mapping[str, Task]:
        """Return an instance of each task that has one, by the task's id."""
        ...


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Success on tasks beside success on their instances."""

    tasks: str
    """``held out`` or ``trained``."""

    given: Score
    """On the tasks that have an instance."""

    fresh: Score
    """On their instances; those of one task are not independent."""

    instances: int
    """Number of instances."""

    gap: float
    """The instance gap: mean over tasks of success minus mean success on the task's instances."""

    low: float
    """Lower end of the gap's 95 % interval, over the choice of tasks (normal)."""

    high: float


async def trained_tasks(directory: RunDirectory, version: int) -> Sequence[Task]:
    """Return the tasks that a run has trained on up to ``version``, sorted by id."""
    reader = run_reader(directory.path)
    used = set[str]()
    async for report in all_of(reader, StepReport):
        if report.step <= version:
            used.update(trained_on(report))
    cache = TaskCache(reader, unread)
    tasks = [await cache.get(task_id) for task_id in sorted(used)]
    return [task for task in tasks if isinstance(task.origin, NEW_TASKS)]


async def compared(
    scoring: Scoring, held_out: Sequence[Task], trained: Sequence[Task], instances: int, seed: int
) -> Sequence[Comparison]:
    """Compare on about ``instances`` instances of held-out tasks, and of trained ones if any.

    Raises ConfigError if the environment makes no instances.
    """
    sides = {"held out": held_out} | ({"trained": trained} if trained else {})
    return [await _compared(scoring, name, tasks, instances, seed) for name, tasks in sides.items()]


async def _compared(
    scoring: Scoring, name: str, tasks: Sequence[Task], instances: int, seed: int
) -> Comparison:
    order: list[int] = np.random.default_rng(seed).permutation(len(tasks)).tolist()
    made = await _made(scoring, [tasks[each] for each in order], instances, seed)
    if not made:
        raise ConfigError(
            f"--fresh: environment {scoring.environment.name} makes no instances of its "
            f"{len(tasks)} {name} tasks; leave it out"
        )
    given = await scoring.of([task for task, _ in made])
    scored = await scoring.of([each for _, those in made for each in those])
    fresh = {score.task_id: score.score for score in scored}
    gaps = [
        score.score - fmean(fresh[each.task_id] for each in those)
        for score, (_, those) in zip(given, made, strict=True)
    ]
    half = NORMAL * stdev(gaps) / sqrt(len(gaps)) if len(gaps) > 1 else 1.0
    return Comparison(
        tasks=name,
        given=score_of((score.task_id, score.score) for score in given),
        fresh=score_of(
            (task.task_id, fresh[each.task_id]) for task, those in made for each in those
        ),
        instances=len(fresh),
        gap=fmean(gaps),
        low=fmean(gaps) - half,
        high=fmean(gaps) + half,
    )


async def _made(
    scoring: Scoring, tasks: Sequence[Task], most: int, seed: int
) -> list[tuple[Task, list[Task]]]:
    """Return tasks with their instances, ``most`` instances in all if the tasks have any.

    Each round makes one instance of each task, until there are enough.
    """
    made: dict[str, list[Task]] = {}
    left = most
    while True:
        found = await scoring.instances(tasks, seed)
        for task_id, instance in islice(found.items(), left):
            made.setdefault(task_id, []).append(instance)
        left -= len(found)
        if left <= 0 or not found:
            return [(task, made[task.task_id]) for task in tasks if task.task_id in made]
        seed += 1


def table(comparisons: Sequence[Comparison]) -> Table:
    """Return the comparisons in percent, with 95 % intervals; of two, the difference of the gaps.

    That of trained minus that of held-out tasks is what the policy memorized.
    """
    drawn = Table(title="the same work under other names, %", title_justify="left")
    for heading in ("tasks", "as given", "new instances", "instance gap"):
        drawn.add_column(heading, justify="left" if heading == "tasks" else "right")
    for each in comparisons:
        drawn.add_row(
            each.tasks,
            f"{each.given.interval} of {each.given.tasks}",
            f"{each.fresh.interval} of {each.instances}",
            _interval(each.gap, each.low, each.high),
        )
    if len(comparisons) == 2:
        held_out, trained = comparisons
        gap = trained.gap - held_out.gap
        half = hypot(trained.high - trained.low, held_out.high - held_out.low) / 2
        drawn.add_row("memorized", "", "", _interval(gap, gap - half, gap + half))
    return drawn


def _interval(mean: float, low: float, high: float) -> str:
    return f"{100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"

"""The comparison and the table of ``coevolve evaluate --fresh``."""

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

import msgspec
import pytest

from coevolve.commands.fresh import Comparison, compared, table, trained_tasks
from coevolve.environments.interface import Environment
from coevolve.history.score import NORMAL, score_of
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.learning import TaskScore
from protocols.tasks import Continued, Task
from tests import evolving
from tests.following import taken


class Renaming:
    """Scores a policy that solves every task, and the instances of odd seeds alone."""

    name = "renaming"

    def __init__(self, seeds: Mapping[str, int]) -> None:
        self._seeds = seeds
        """Task id -> number of its instances."""

    @property
    def environment(self) -> Environment:
        return cast("Any", self)

    async def of(self, tasks: Sequence[Task]) -> Sequence[TaskScore]:
        seeds = [int(task.task_id.partition("~")[2] or 1) for task in tasks]
        return [
            TaskScore(task_id=task.task_id, turns_passed=seed % 2, turns_total=1)
            for task, seed in zip(tasks, seeds, strict=True)
        ]

    async def instances(self, tasks: Sequence[Task], seed: int) -> Mapping[str, Task]:
        return {
            task.task_id: evolving.seed(f"{task.task_id}~{seed}")
            for task in tasks
            if seed < self._seeds[task.task_id]
        }


TASKS = [evolving.seed(name) for name in ("a", "b", "c")]


async def test_each_task_is_compared_with_instances_of_its_own_until_there_are_enough():
    scoring = Renaming(dict.fromkeys("abc", 100))
    (found,) = await compared(scoring, TASKS, (), 7, 5)
    assert (found.tasks, found.given.mean, found.given.tasks) == ("held out", 1.0, 3)
    assert (found.instances, found.fresh.tasks) == (7, 3)  # of the seeds 5, 6, and 7 for one task
    gaps = [1 - 2 / 3, 1 - 1 / 2, 1 - 1 / 2]
    half = NORMAL * stdev(gaps) / sqrt(3)
    assert (found.gap, found.low, found.high) == pytest.approx(
        (fmean(gaps), fmean(gaps) - half, fmean(gaps) + half)
    )
    assert found.fresh.mean == pytest.approx(4 / 7)


async def test_tasks_without_instances_are_left_out_and_a_single_one_says_nothing():
    scoring = Renaming({"a": 0, "b": 2, "c": 0})
    (_, found) = await compared(scoring, TASKS[1:2], TASKS, 7, 0)
    assert (found.tasks, found.given.tasks, found.instances) == ("trained", 1, 2)
    assert (found.gap, found.low, found.high) == (0.5, -0.5, 1.5)
    with pytest.raises(ConfigError, match="renaming makes no instances of its 1 held out tasks"):
        await compared(scoring, TASKS[:1], (), 7, 0)


async def test_a_version_was_trained_on_the_tasks_of_the_steps_up_to_it(
    tmp_path: Path, quickstart: RunConfig
):
    directory = starting.create(tmp_path / "run", quickstart)
    journal = Journal.open(directory.store)
    again = msgspec.structs.replace(TASKS[0], origin=Continued(root="b", rollout="r"))
    tasks = [again, *TASKS[1:], evolving.seed("d"), evolving.seed("e")]
    steps = [
        _step(1, "c", "b"),
        _step(2, "a"),
        _step(3, "d", use="nothing"),
        _step(4, "e"),
    ]
    evolving.write(journal, [*tasks, *steps])
    journal.close()
    found = [await trained_tasks(directory, version) for version in (0, 1, 3, 4)]
    assert [[task.task_id for task in each] for each in found] == [
        [],
        ["b", "c"],
        ["b", "c"],
        ["b", "c", "e"],
    ]


def _step(number: int, *tasks: str, use: str = "policy_gradient") -> Any:
    step = taken(number)
    (group,) = step.groups
    groups = [msgspec.structs.replace(group, task_id=task, use=cast("Any", use)) for task in tasks]
    return msgspec.structs.replace(step, groups=tuple(groups))


def comparison(tasks: str, gap: float, half: float) -> Comparison:
    scores = score_of((str(number), float(number % 2)) for number in range(8))
    return Comparison(
        tasks=tasks,
        given=scores,
        fresh=scores,
        instances=8,
        gap=gap,
        low=gap - half,
        high=gap + half,
    )


@pytest.mark.parametrize(
    ("held_out", "trained", "told"),
    [
        ((0.05, 0.04), (0.16, 0.03), "+11.0 [+6.0, +16.0]"),
        ((0.05, 0.08), (0.05, 0.06), "+0.0 [-10.0, +10.0]"),
        ((-0.06, 0.05), (-0.02, 0.12), "+4.0 [-9.0, +17.0]"),
    ],
)
def test_what_was_memorized_is_the_gap_beyond_that_of_held_out_tasks(
    held_out: tuple[float, float], trained: tuple[float, float], told: str
):
    drawn = table([comparison("held out", *held_out), comparison("trained", *trained)])
    first, *_, last = drawn.columns
    assert [*first.cells] == ["held out", "trained", "memorized"]
    assert [*last.cells][-1] == told


def test_without_trained_tasks_nothing_is_said_of_memorization():
    drawn = table([comparison("held out", 0.05, 0.04)])
    assert [*drawn.columns[0].cells] == ["held out"]

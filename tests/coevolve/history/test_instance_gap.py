"""Which tasks the gap of each side is over."""

import pytest

from coevolve.history.instance_gap import instance_gaps
from protocols.learning import Evaluation, TaskScore
from protocols.tasks import attempted


def scores(halves: dict[str, int]) -> tuple[TaskScore, ...]:
    return tuple(
        TaskScore(task_id=task_id, turns_passed=0, turns_total=1, measures={"coverage": number / 2})
        for task_id, number in halves.items()
    )


def evaluated(
    given: dict[str, int], instances: dict[str, int], trained: dict[str, int] | None = None
) -> Evaluation:
    return Evaluation(
        version=1,
        scores=scores(given),
        trained=scores(trained or {}),
        instances=scores({attempted(task, 1): number for task, number in instances.items()}),
        errors=0,
        wall_s=1.0,
    )


def test_a_task_that_was_trained_on_counts_on_that_side_alone():
    given, trained = {"a": 1, "b": 1, "both": 2, "unscored": 2}, {"both": 2, "c": 2}
    gaps = instance_gaps(evaluated(given, {"a": 0, "b": 0, "both": 0, "c": 0}, trained))
    assert {side: gap.mean for side, gap in gaps.items()} == {"held_out": 0.5, "trained": 1.0}


def test_one_task_alone_has_no_gap():
    assert instance_gaps(evaluated({"a": 1}, {"a": 0})) == {}


def test_the_gap_and_its_error_by_hand():
    found = instance_gaps(evaluated({"a": 2, "b": 1, "c": 1}, {"a": 0, "b": 1, "c": 0}))
    gap = found["held_out"]  # differences of 1, 0 and one half
    assert (gap.given, gap.fresh, gap.mean) == pytest.approx((2 / 3, 1 / 6, 1 / 2))
    assert gap.std_error == pytest.approx(0.5 / 3**0.5)

"""The table of ``coevolve evaluate --fresh``."""

import pytest

from coevolve.commands.fresh import Comparison, table
from coevolve.runs.score import score_of


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

"""Short texts about tasks in tables: the newest results, and gaps with their sign."""

import pytest

from coevolve.cli.attach_views.words import VISITS, gap_of, scores
from coevolve.history.instance_gap import TaskGap
from tests.evolving import visit


def test_the_newest_groups_of_a_task_are_shown_the_oldest_of_them_first():
    visits = [visit("t", successes, version=successes) for successes in range(VISITS + 2)]
    assert scores(visits) == "2/8 3/8 4/8 5/8"
    assert scores(visits[:2]) == "0/8 1/8"


@pytest.mark.parametrize(
    ("gap", "told"),
    [
        (TaskGap(mean=0.25, evaluations=3), "+25 of 3"),
        (TaskGap(mean=-0.5, evaluations=1), "-50 of 1"),
        (None, ""),
    ],
)
def test_an_instance_gap_has_its_sign(gap: TaskGap | None, told: str):
    assert gap_of(gap) == told

"""The share of held-out groups is exact, whatever their places."""

import random

import pytest

from coevolve.environments.tools.split_tasks import held_out_places
from protocols.tasks import Split


@pytest.mark.parametrize("groups", [2, 3, 10, 157, 1000])
@pytest.mark.parametrize("share", [1e-9, 0.1, 0.3, 0.5, 0.99])
def test_the_number_of_held_out_groups_is_the_share_and_leaves_each_side_one(
    groups: int, share: float
) -> None:
    for seed in range(5):
        places = random.Random(seed).sample(range(1 << 40), groups)
        held_out = held_out_places([*places, *places], share)
        assert held_out < set(places)
        expected = min(max(1, round(share * groups)), groups - 1)
        assert len(held_out) == expected


def test_a_single_group_is_on_one_side() -> None:
    assert held_out_places([7], 0.3) == {7}
    assert held_out_places([], 0.3) == set()


@pytest.mark.parametrize(
    ("decided", "places", "held_out"),
    [
        (["held_out"], [7], set()),
        (["train"], [7], {7}),
        (["train", "held_out"], [7], set()),
        (["held_out"], [1, 2, 3], {1}),
        (["train"], [], set()),
    ],
)
def test_groups_fill_the_side_that_no_other_task_is_on(
    decided: list[Split], places: list[int], held_out: set[int]
) -> None:
    assert held_out_places(places, 0.3, decided=decided) == held_out

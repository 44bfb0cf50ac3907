import random
from fractions import Fraction
from typing import Literal

import pytest

from coevolve.environments.hdl.curation.selection import (
    Arm,
    Draft,
    draft,
    rounds,
    select,
    state_draft,
)
from protocols.hardware import NotCovered
from protocols.transitions import Blank, Graded
from tests.hdl_transitions import FAILED, covered, transition


def drafts(**shares: float | None) -> list[Draft]:
    return [
        Draft(
            draft_id=draft_id,
            ran=share is not None,
            coverage=None if share is None else Fraction(repr(share)),
        )
        for draft_id, share in shares.items()
    ]


def picked(found: list[Draft], prioritize: Literal["worst", "median"] = "worst") -> dict[str, str]:
    return {pick.why: pick.draft_id for pick in select(found, prioritize=prioritize)}


def test_the_worst_is_picked_and_the_median_only_where_it_is_far_above() -> None:
    far = drafts(a=0.9, b=0.2, c=0.5)
    near = drafts(a=0.9, b=0.45, c=0.5)
    assert picked(far) == {"worst": "b", "median": "c"}
    assert picked(near) == {"worst": "b"}
    assert picked(far, "median") == {"worst": "b", "median": "c"}
    assert picked(near, "median") == {"median": "c"}


def test_a_gap_of_exactly_the_bound_is_not_far() -> None:
    # As binary floating point numbers 0.8 - 0.7 is more than 0.1.
    assert picked(drafts(a=0.7, b=0.8, c=0.9)) == {"worst": "a"}


def test_ties_go_to_the_smallest_id() -> None:
    assert picked(drafts(d=0.2, c=0.2, b=0.5, a=0.5, z=0.9)) == {"worst": "c", "median": "a"}


@pytest.mark.parametrize(
    ("shares", "median"),
    [
        ({"a": 0.1, "b": 0.3, "c": 0.5, "d": 0.7}, "b"),
        ({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.5, "e": 0.9}, "d"),
        ({"a": 0.1, "b": 0.6}, "a"),
    ],
)
def test_the_median_is_the_lower_one_of_different_coverages(
    shares: dict[str, float], median: str
) -> None:
    assert picked(drafts(**shares), "median")["median"] == median


def test_full_coverage_is_no_state_to_improve() -> None:
    assert picked(drafts(a=1.0, b=0.6)) == {"worst": "b"}
    assert select(drafts(a=1.0)) == ()
    assert select([]) == ()


def test_one_failed_draft_is_picked_the_smallest_id() -> None:
    found = drafts(c=None, b=None, a=0.5)
    assert picked(found) == {"simulator_failure": "b", "worst": "a"}
    assert picked(drafts(c=None)) == {"simulator_failure": "c"}


def test_outcomes_become_drafts() -> None:
    step = transition("t", Blank(), covered((1, 2), (1, 4)))
    assert draft(step) == Draft(draft_id="t", ran=True, coverage=Fraction(3, 8))
    assert not state_draft("t", FAILED).ran
    assert not state_draft("t", Blank()).ran
    nowhere = Graded(testbench="t", outcome=NotCovered(message="no instance"), key="k")
    assert state_draft("t", nowhere) == Draft(draft_id="t", ran=True, coverage=None)
    assert select([state_draft("t", nowhere)]) == ()


DESIGNS = {
    "b": drafts(x=0.1, y=0.4, z=0.4),
    "a": drafts(p=0.3, q=None, r=1.0),
}


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        ("best", [{"a": "p", "b": "z"}, {"a": "q", "b": "y"}, {"b": "x"}]),
        ("worst", [{"a": "q", "b": "x"}, {"a": "p", "b": "y"}, {"b": "z"}]),
    ],
)
def test_rounds_take_one_draft_a_design_until_none_is_left(
    arm: Arm, expected: list[dict[str, str]]
) -> None:
    made = rounds(DESIGNS, arm=arm, budget=99, generator=random.Random(0))
    assert [{design: pick.draft_id for design, pick in each} for each in made] == expected


def test_a_budget_is_never_exceeded_and_designs_are_drawn_for_its_rest() -> None:
    sizes: set[str] = set()
    for seed in range(20):
        made = rounds(DESIGNS, arm="best", budget=3, generator=random.Random(seed))
        assert [len(each) for each in made] == [2, 1]
        sizes.add(made[1][0][0])
    assert sizes == {"a", "b"}


def test_the_uniform_arm_draws_every_draft_and_repeats_by_its_seed() -> None:
    firsts = {
        rounds(DESIGNS, arm="uniform", budget=2, generator=random.Random(seed))
        for seed in range(40)
    }
    assert {pick.draft_id for made in firsts for _, pick in made[0]} == {"x", "y", "z", "p", "q"}
    again = [rounds(DESIGNS, arm="uniform", budget=4, generator=random.Random(5)) for _ in "ab"]
    assert again[0] == again[1]

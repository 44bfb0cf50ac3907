import dataclasses
from fractions import Fraction

import pytest

from coevolve.environments.hdl.curation.rejection import (
    PAPER,
    RELEASED,
    UNFILTERED,
    WARM_UP,
    Reason,
    RejectionRule,
    judge,
    kept,
    most_gained,
    reasons,
    reject,
)
from coevolve.environments.hdl.policy.transition import Blank, DesignState, Graded
from coevolve.environments.hdl.simulate.messages import NotCovered
from tests.hdl_transitions import FAILED, covered, transition

HALF = covered((50, 100), (5, 10))


@pytest.mark.parametrize(
    ("before", "after", "rule", "reason"),
    [
        # (50/100 + 5/10) / 2 = 0.5; (52/100 + 5/10) / 2 = 0.51: a gain of exactly 0.01.
        (HALF, covered((52, 100), (5, 10)), PAPER, "kept"),
        (HALF, covered((52, 100), (5, 10)), RELEASED, "too_little_gain"),
        (HALF, covered((53, 100), (5, 10)), RELEASED, "kept"),
        (HALF, covered((51, 100), (5, 10)), PAPER, "too_little_gain"),
        (HALF, HALF, UNFILTERED, "kept"),
        # The average rises to 0.645, one kind falls.
        (HALF, covered((49, 100), (8, 10)), PAPER, "kind_fell"),
        (HALF, covered((49, 100), (8, 10)), RejectionRule(no_kind_falls=False), "kept"),
        (HALF, covered((90, 100)), PAPER, "kind_fell"),
        (HALF, FAILED, PAPER, "no_coverage"),
        (HALF, FAILED, UNFILTERED, "no_coverage"),
        # A repaired simulation counts whatever its coverage, except for the floor.
        (FAILED, covered((0, 100), (0, 10)), PAPER, "kept"),
        (FAILED, covered((0, 100), (0, 10)), RELEASED, "kept"),
        (FAILED, covered((49, 100)), WARM_UP, "below_floor"),
        (FAILED, covered((50, 100)), WARM_UP, "kept"),
        (HALF, covered((80, 100), (8, 10)), WARM_UP, "kept"),
        (Blank(), covered((1, 100)), PAPER, "kept"),
        (Blank(), covered((0, 100)), PAPER, "too_little_gain"),
        (Blank(), covered((49, 100)), WARM_UP, "below_floor"),
        (Blank(), covered((90, 100)), RELEASED, "blank_state"),
    ],
)
def test_a_step_is_judged_by_what_it_gained(
    before: DesignState, after: Graded, rule: RejectionRule, reason: Reason
) -> None:
    assert judge(before, after, rule) == reason


def test_a_run_without_the_design_counts_as_failed() -> None:
    nowhere = Graded(testbench="t", outcome=NotCovered(message="no instance"), key="k")
    assert judge(nowhere, covered((1, 100))) == "kept"
    assert judge(HALF, nowhere) == "no_coverage"


def test_a_threshold_is_compared_without_rounding() -> None:
    # In binary floating point 0.94 - 0.93 is less than 0.01.
    step = transition("a", covered((93, 100)), covered((94, 100)))
    assert judge(step.before, step.after, PAPER) == "kept"
    assert judge(step.before, step.after, RELEASED) == "too_little_gain"


def test_the_first_step_with_the_largest_gain_from_a_state_stays() -> None:
    other = covered((10, 100), (1, 10))
    steps = (
        transition("small", HALF, covered((60, 100), (6, 10))),
        transition("first", HALF, covered((70, 100), (7, 10))),
        transition("equal", HALF, covered((70, 100), (7, 10), testbench="another")),
        transition("elsewhere", other, covered((20, 100), (2, 10))),
        transition("failed", HALF, FAILED),
    )
    judged = reject(steps)
    assert [each.reason for each in judged] == [
        "outdone", "kept", "outdone", "kept", "no_coverage",
    ]  # fmt: skip
    assert [each.transition_id for each in kept(judged)] == ["first", "elsewhere"]
    assert judged[1].gain == Fraction(1, 5)
    assert reasons(judged) == {"outdone": 2, "kept": 2, "no_coverage": 1}


def test_the_released_rule_keeps_one_step_a_design() -> None:
    other = covered((10, 100), (1, 10))
    steps = (
        transition("a", HALF, covered((70, 100), (7, 10))),
        transition("b", other, covered((40, 100), (4, 10))),
        transition("c", HALF, covered((60, 100), (6, 10)), design="uart"),
    )
    assert [each.transition_id for each in kept(reject(steps, RELEASED))] == ["b", "c"]
    assert len(kept(reject(steps, dataclasses.replace(RELEASED, of_each="step")))) == 3


def test_the_first_step_with_the_largest_gain_of_a_group_is_kept() -> None:
    made = {
        0: covered((60, 100), (5, 10)),
        1: FAILED,
        2: covered((70, 100), (6, 10)),
        3: covered((70, 100), (6, 10)),
        4: covered((99, 100), (4, 10)),
    }
    assert most_gained(HALF, made) == (2,)
    assert most_gained(HALF, made, RejectionRule(no_kind_falls=False)) == (4,)
    assert most_gained(HALF, {1: FAILED, 5: HALF}) == ()
    assert most_gained(Blank(), {}) == ()
    assert most_gained(HALF, made, RejectionRule(keep=2)) == (2, 3)
    assert most_gained(HALF, made, RejectionRule(keep=9)) == (2, 3, 0)


def test_the_rule_sets_the_number_of_steps_kept_per_state() -> None:
    made = [covered((n, 100), (5, 10)) for n in (60, 70, 65, 70, 50)]
    steps = [transition(f"t{n}", HALF, each) for n, each in enumerate(made)]
    left = kept(reject(steps, RejectionRule(keep=3)))
    assert [each.transition_id for each in left] == ["t1", "t2", "t3"]


def test_without_a_minimum_gain_every_step_with_coverage_is_kept() -> None:
    assert judge(HALF, covered((40, 100), (4, 10)), UNFILTERED) == "kept"
    assert judge(HALF, FAILED, UNFILTERED) == "no_coverage"

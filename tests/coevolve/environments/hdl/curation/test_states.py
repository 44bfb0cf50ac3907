from fractions import Fraction

import msgspec
import pytest

from coevolve.environments.hdl.curation.states import average, falls, gain, meets, state_key
from coevolve.environments.hdl.policy.transition import Blank, Transition
from tests.hdl_transitions import FAILED, coverage, covered, transition


def test_states_are_equal_by_their_testbench_and_outcome_on_one_design() -> None:
    state = covered((1, 2))
    assert state_key("fifo", state) == state_key("fifo", covered((1, 2)))
    others = {
        state_key("uart", state),
        state_key("fifo", covered((2, 2))),
        state_key("fifo", covered((1, 2), testbench="another")),
        state_key("fifo", FAILED),
        state_key("fifo", Blank()),
    }
    assert len(others - {state_key("fifo", state)}) == 5


def test_averages_are_unweighted_over_kinds_and_0_without_coverage() -> None:
    assert average(coverage((1, 3), (50, 100))) == Fraction(5, 12)
    assert average(coverage()) == average(None) == 0
    assert gain(covered((1, 2)), FAILED) == Fraction(-1, 2)


@pytest.mark.parametrize("percent", range(1, 101))
def test_a_threshold_is_met_exactly(percent: int) -> None:
    assert meets(coverage((percent, 100)), percent / 100)
    assert not meets(coverage((percent * 10 - 1, 1000)), percent / 100)


def test_a_missing_kind_counts_as_fallen() -> None:
    assert falls(coverage((1, 2), (1, 2)), coverage((2, 4))) == ("branch",)
    assert falls(coverage((1, 2)), coverage((2, 4), (0, 1))) == ()


def test_a_step_is_decoded_from_its_bytes() -> None:
    step = transition("t1", covered((1, 2)), FAILED)
    assert msgspec.json.decode(msgspec.json.encode(step), type=Transition) == step


def test_a_step_from_a_blank_state_has_no_parent() -> None:
    step = transition("t1", Blank(), covered((1, 2)))
    with pytest.raises(ValueError, match="no parent, got parent 't0'"):
        msgspec.structs.replace(step, parent="t0")

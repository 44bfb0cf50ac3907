"""Scores and their differences, compared with values by hand and by counting."""

from itertools import combinations
from statistics import fmean

import pytest

from coevolve.environments.hdl.evaluation.measures import (
    Attempted,
    Score,
    difference,
    interval,
    mean_score,
    pass_at,
    score,
)


def attempted(coverage: float, *, passed: bool = False, bugs: float | None = None) -> Attempted:
    ran = coverage > 0
    return Attempted(ran=ran, coverage=coverage, passed=passed, steps=2, calls=1 + ran, bugs=bugs)


def of(coverage: float, bugs: float | None = None) -> Score:
    return score([attempted(coverage, bugs=bugs)])


@pytest.mark.parametrize("attempts", [1, 4, 5, 7])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_pass_at_k_is_the_share_of_choices_with_a_pass(attempts: int, k: int):
    for passed in range(attempts + 1):
        made = [index < passed for index in range(attempts)]
        choices = [any(chosen) for chosen in combinations(made, k)]
        expected = pytest.approx(fmean(choices)) if choices else None
        assert pass_at(k, attempts, passed) == expected


def test_failed_attempts_count_as_zero_coverage():
    found = score(
        [
            attempted(0.0, bugs=0.0),
            attempted(0.9, passed=True, bugs=0.5),
            attempted(0.6, bugs=0.25),
            attempted(1.0, passed=True, bugs=1.0),
        ]
    )
    assert (found.attempts, found.calls) == (4, 1.75)
    assert (found.sim_pass, found.cov_pass, found.pass_at_5) == (0.75, 0.5, None)
    assert (found.coverage, found.bugs) == (pytest.approx(0.625), pytest.approx(0.4375))


def test_pass_at_five_is_one_if_one_of_five_passed():
    found = score([attempted(0.95, passed=number == 3) for number in range(5)])
    assert (found.cov_pass, found.pass_at_5) == (0.2, 1.0)


def test_designs_have_equal_weights_and_missing_measures_are_left_out():
    found = mean_score([of(0.5, bugs=0.5), of(1.0), of(0.0, bugs=0.0)])
    assert (found.coverage, found.bugs, found.pass_at_5) == (0.5, 0.25, None)
    assert found.sim_pass == pytest.approx(2 / 3)


def test_equal_gains_have_an_interval_of_width_zero():
    assert interval([0.25] * 7, seed=1) == (0.25, 0.25)


def test_the_interval_of_two_designs_is_that_of_all_four_draws():
    assert interval([0.0, 1.0], seed=3) == (0.0, 1.0)


def test_the_interval_of_many_designs_is_near_the_normal_one():
    gains = [(-1.0) ** number for number in range(400)]
    low, high = interval(gains, seed=0)
    assert low == pytest.approx(-0.098, abs=0.008)  # 1.96 / sqrt(400)
    assert high == pytest.approx(0.098, abs=0.008)
    assert interval(gains, seed=0) == (low, high)


def test_pairing_designs_removes_their_common_variance():
    designs = [{"a": of(base + 0.125), "b": of(base)} for base in (0.125, 0.5, 0.75)]
    found = difference("a", "b", "coverage", designs, seed=0)
    assert found is not None
    assert (found.mean, found.low, found.high, found.designs) == (0.125, 0.125, 0.125, 3)


def test_designs_without_the_measure_are_left_out():
    designs = [{"a": of(1.0, bugs=1.0), "b": of(1.0, bugs=0.5)}, {"a": of(1.0), "b": of(1.0)}]
    found = difference("a", "b", "bugs", designs, seed=0)
    assert found is not None
    assert (found.mean, found.designs) == (0.5, 1)
    assert difference("a", "b", "pass_at_5", designs, seed=0) is None

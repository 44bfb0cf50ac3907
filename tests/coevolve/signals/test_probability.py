from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.base.ordered import Ranked
from coevolve.signals.probability import (
    SuccessCount,
    at_least,
    at_most,
    benjamini_hochberg,
    no_drop,
    same_rate,
)


def test_tails_of_eight_draws_by_hand():
    # P(Bin(8, 1/10) >= 3) = 1 - (9^8 + 8 * 9^7 + 28 * 9^6) / 10^8
    assert at_least(3, 8, 0.1) == pytest.approx(1 - (9**8 + 8 * 9**7 + 28 * 9**6) / 10**8)
    assert at_most(0, 58, 0.05) == pytest.approx(0.95**58)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 20))
def test_tails_equal_the_exact_sum(count: int, draws: int, twentieth: int):
    p = Fraction(twentieth, 20)
    terms = [comb(draws, i) * p**i * (1 - p) ** (draws - i) for i in range(draws + 1)]
    below = list(accumulate(terms))
    expected = float(below[min(count, draws)])
    assert at_most(count, draws, float(p)) == pytest.approx(expected, abs=1e-12)


def test_a_drop_by_hand():
    # p_before ~ Beta(2, 1), p_now ~ Beta(1, 2): P(p_before <= p_now) = int x^2 2(1 - x) dx = 1/6;
    # with u = x + 1/2: int_{1/2}^1 u^2 2(3/2 - u) du + P(p_now > 1/2) = 13/32 + 1/4.
    assert no_drop(SuccessCount(1, 1), SuccessCount(0, 1), 0.0) == pytest.approx(1 / 6, abs=1e-3)
    assert no_drop(SuccessCount(1, 1), SuccessCount(0, 1), 0.5) == pytest.approx(21 / 32, abs=1e-3)


@pytest.mark.parametrize(
    ("before", "now", "drop"),
    [((32, 40), (2, 8), 0.2), ((6, 8), (5, 8), 0.1), ((80, 80), (3, 8), 0.55), ((0, 3), (3, 3), 0)],
)
def test_the_grid_agrees_with_drawing(before: tuple[int, int], now: tuple[int, int], drop: float):
    draws = np.random.default_rng(0)
    p_before, p_now = (draws.beta(k + 1, n - k + 1, 1_000_000) for k, n in (before, now))
    expected = np.mean(p_before - p_now <= drop)
    assert no_drop(SuccessCount(*before), SuccessCount(*now), drop) == pytest.approx(
        expected, abs=2e-3
    )


def test_fisher_by_hand():
    assert same_rate(SuccessCount(4, 4), SuccessCount(0, 4)) == pytest.approx(1 / 70)
    # The lady tasting tea with one error: (1 + 16) / 70.
    assert same_rate(SuccessCount(3, 4), SuccessCount(1, 4)) == pytest.approx(17 / 70)
    assert same_rate(SuccessCount(0, 4), SuccessCount(4, 4)) == pytest.approx(1)
    assert same_rate(SuccessCount(0, 0), SuccessCount(3, 4)) == pytest.approx(1)


def ranked(p_values: Sequence[float]) -> Ranked[str, float]:
    numbers: Ranked[str, float] = Ranked()
    for place, p_value in enumerate(p_values):
        numbers.put(str(place), p_value)
    return numbers


def test_benjamini_and_hochbergs_own_example():
    p_values = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459),
        *(0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
    ]
    # 4 * 0.05 / 15 = 0.0133, 5: 0.0167
    assert benjamini_hochberg(ranked(p_values), 0.05) == 0.0095
    # The second carries the first.
    assert benjamini_hochberg(ranked([0.04, 0.049]), 0.05) == 0.049
    assert benjamini_hochberg(ranked([0.3, 0.9]), 0.05) < 0
    assert benjamini_hochberg(ranked([]), 0.05) < 0


def plain_benjamini_hochberg(p_values: Sequence[float], false_discovery: float) -> float:
    """Compare every p-value with its limit, as in the paper."""
    ordered = np.sort(np.asarray(p_values, dtype=float))
    limits = false_discovery * np.arange(1, len(ordered) + 1) / max(1, len(ordered))
    passing = np.flatnonzero(ordered <= limits)
    return float(ordered[passing[-1]]) if len(passing) else -1.0


P_VALUES = st.floats(0, 1) | st.floats(0, 0.05) | st.sampled_from((1 / 70, 0.01, 0.02, 0.025, 0.05))


@given(st.lists(P_VALUES, max_size=60), st.sampled_from((0.05, 0.1, 0.4)))
def test_the_rejected_p_values_equal_those_of_a_plain_search(
    p_values: list[float], false_discovery: float
):
    expected = plain_benjamini_hochberg(p_values, false_discovery)
    assert benjamini_hochberg(ranked(p_values), false_discovery) == expected


@given(st.integers(1, 60), st.data())
def test_p_values_on_their_very_limits_are_decided_as_by_a_plain_search(
    tasks: int, data: st.DataObject
):
    places = data.draw(st.lists(st.integers(1, tasks), min_size=tasks, max_size=tasks))
    p_values = [0.05 * place / tasks for place in places]
    expected = plain_benjamini_hochberg(p_values, 0.05)
    assert benjamini_hochberg(ranked(p_values), 0.05) == expected

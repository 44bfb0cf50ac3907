"""Tests of the statistics of a study, against scipy's and against simulation."""

import numpy as np
import pytest
from scipy import stats

from coevolve.commands.contrasts import (
    contrasts_of,
    detectable_sds,
    gap_share,
    holm,
    smallest_p,
    swap_p,
)

DIFFERENCES = (1.2, -0.4, 2.2, 0.9, 1.5, 0.1, -0.2, 1.9)


def test_the_p_value_is_that_of_scipys_permutation_test():
    zeros = np.zeros(len(DIFFERENCES))
    theirs = stats.permutation_test(
        (np.array(DIFFERENCES), zeros),
        lambda one, other: np.mean(one) - np.mean(other),
        permutation_type="samples",
    )
    assert swap_p(DIFFERENCES) == pytest.approx(theirs.pvalue)


def test_many_pairs_are_swapped_at_random():
    exact = swap_p(DIFFERENCES)
    many = (*DIFFERENCES, *DIFFERENCES, *DIFFERENCES)
    assert swap_p(many) == pytest.approx(stats.ttest_1samp(many, 0)[1], abs=0.003)
    assert swap_p(many) < exact


def test_eight_pairs_in_one_direction_have_the_smallest_p():
    assert swap_p([1.0] * 8) == pytest.approx(2 / 2**8)


def test_holm_corrects_by_rank_and_keeps_the_order():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_the_detectable_effect_is_seen_in_eight_of_ten_studies():
    rng = np.random.default_rng(0)
    effect = detectable_sds(8, 1)
    studies = rng.normal(effect, 1, size=(20_000, 8))
    p = np.asarray(stats.ttest_1samp(studies, 0, axis=1)[1], dtype=np.float64)
    assert np.mean(p < 0.05) == pytest.approx(0.8, abs=0.01)


def test_several_contrasts_share_the_level():
    assert detectable_sds(8, 4) > 1.2 * detectable_sds(8, 1)
    assert smallest_p(8, 4) == pytest.approx(holm([swap_p([1.0] * 8), 1, 1, 1])[0])
    assert smallest_p(3, 4) == 1


def test_a_contrast_is_paired_by_the_seeds_that_both_arms_have():
    results = {("a", 1): 5.0, ("a", 2): 6.0, ("a", 3): 9.0, ("b", 1): 3.0, ("b", 2): 5.0}
    (contrast,) = contrasts_of(results, [("a", "b")])
    assert contrast.differences == (2.0, 1.0)
    assert contrast.bounds[0] == 1.5
    assert contrast.verdict == "too few pairs to say"


def test_enough_pairs_that_point_both_ways_show_no_difference():
    results = {(arm, seed): float(seed % 2 == (arm == "a")) for seed in range(8) for arm in "ab"}
    (contrast,) = contrasts_of(results, [("a", "b")])
    assert contrast.verdict == "no difference seen"


def test_a_clear_contrast_is_called_by_its_sign():
    results = {(arm, seed): value for seed in range(8) for arm, value in (("a", 1.0), ("b", 2.0))}
    up, down = contrasts_of(results, [("b", "a"), ("a", "b")])
    assert (up.verdict, down.verdict) == ("higher", "lower")


def test_the_share_of_a_gap_has_an_interval_over_seeds():
    results = {
        (arm, seed): value
        for seed, noise in enumerate((0.1, -0.1, 0.3, 0.0))
        for arm, value in (("low", 1.0), ("middle", 2.0 + noise), ("high", 3.0))
    }
    share, low, high = gap_share(results, "middle", "low", "high")
    assert share == pytest.approx(0.5375)
    assert low < share < high
    assert np.isnan(gap_share(results, "middle", "high", "low")).all()

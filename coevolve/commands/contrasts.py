"""Contrasts of arms, paired by seed, and what could have been seen.

A contrast's interval is Student's t. Its p value is the share of all ways to swap the two arms
within pairs that give a mean difference at least as large. Holm's method corrects the p values of
all contrasts of a study. The detectable effect is the one that as many pairs with the spread found
would show in about 80 % of studies, two-sided at 5 % for all contrasts together: it is reckoned for
a t test at the level of Holm's first step, to which the swaps come close from some eight pairs on.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt
from scipy import stats

from coevolve.commands.intervals import LEVEL, Bounds, interval

POWER = 0.8
ALPHA = 0.05

EXACT_PAIRS = 16
"""Up to this number of pairs all swaps are tried, else `DRAWN` random ones."""

DRAWN = 100_000


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One arm's results minus another's."""

    arm: str
    other: str
    differences: tuple[float, ...]
    """By seed."""

    bounds: Bounds
    p: float
    holm: float
    """The p value, corrected for the number of contrasts."""

    detectable: float
    """An effect above it would mostly have been seen."""

    is_decidable: bool
    """Whether so many pairs can have a corrected p value of `ALPHA`."""

    @property
    def verdict(self) -> str:
        """Return what the contrast allows to say."""
        if self.holm <= ALPHA:
            return "higher" if self.bounds[0] > 0 else "lower"
        return "no difference seen" if self.is_decidable else "too few pairs to say"


def contrasts_of(
    results: Mapping[tuple[str, int], float], pairs: Sequence[Sequence[str]]
) -> Sequence[Contrast]:
    """Return the contrasts of arms' results by (arm, seed), over the seeds that both arms have."""
    found = [_differences(results, *pair) for pair in pairs]
    raw = [swap_p(each) for each in found]
    return [
        Contrast(
            arm=arm,
            other=other,
            differences=tuple(each),
            bounds=interval(each),
            p=p,
            holm=corrected,
            detectable=detectable_sds(len(each), len(pairs)) * stdev(each),
            is_decidable=smallest_p(len(each), len(pairs)) <= ALPHA,
        )
        for (arm, other), each, p, corrected in zip(pairs, found, raw, holm(raw), strict=True)
    ]


def swap_p(differences: Sequence[float]) -> float:
    """Return the two-sided p value of exchanging the arms within pairs."""
    values = np.asarray(differences, dtype=np.float64)
    count = len(values)
    if count <= EXACT_PAIRS:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=count)), dtype=np.float64)
    else:
        signs = np.random.default_rng(0).choice((1.0, -1.0), (DRAWN, count))
        signs[0] = 1.0  # the swaps that were made are among those that could be
    means: npt.NDArray[np.float64] = np.abs(signs @ values) / count
    return float(np.mean(means >= abs(fmean(differences)) - 1e-12))


def smallest_p(pairs: int, contrasts: int) -> float:
    """Return the smallest corrected p value that so many pairs can have."""
    return min(1.0, 2 * contrasts / 2**pairs)


def holm(values: Sequence[float]) -> Sequence[float]:
    """Return the p values, corrected by Holm's method; in the given order."""
    corrected, highest = [0.0] * len(values), 0.0
    for rank, number in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[number]))
        corrected[number] = highest
    return corrected


def detectable_sds(pairs: int, contrasts: int) -> float:
    """Return the detectable effect of at least two pairs, in standard deviations of a pair."""
    critical = stats.t.isf(ALPHA / max(1, contrasts) / 2, pairs - 1)
    low, high = 0.0, 100.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        shown = stats.nct.sf(critical, pairs - 1, middle * math.sqrt(pairs))
        low, high = (low, middle) if shown >= POWER else (middle, high)
    return high


def gap_share(results: Mapping[tuple[str, int], float], arm: str, low: str, high: str) -> Bounds:
    """Return which share of the difference of two arms a third one reaches, with its interval.

    The interval is the middle 95 % of 10,000 draws of seeds with replacement. NaN unless the
    difference is above 0 in 95 % of these.
    """
    above = np.array(_differences(results, arm, low), dtype=np.float64)
    whole = np.array(_differences(results, high, low), dtype=np.float64)
    drawn = np.random.default_rng(0).integers(len(whole), size=(10_000, len(whole)))
    gaps: npt.NDArray[np.float64] = whole[drawn].sum(axis=1)
    if np.mean(gaps > 0) < LEVEL:
        return math.nan, math.nan, math.nan
    drawn, gaps = drawn[gaps > 0], gaps[gaps > 0]
    shares: npt.NDArray[np.float64] = above[drawn].sum(axis=1) / gaps
    tail = (1 - LEVEL) / 2
    below, over = (float(np.nanquantile(shares, each)) for each in (tail, 1 - tail))
    return above.sum() / whole.sum(), below, over


def _differences(results: Mapping[tuple[str, int], float], arm: str, other: str) -> Sequence[float]:
    seeds = sorted(seed for name, seed in results if name == arm and (other, seed) in results)
    return [results[arm, seed] - results[other, seed] for seed in seeds]

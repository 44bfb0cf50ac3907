"""Computes measures of attempts at designs, and confidence intervals of their differences.

For one design: *simulator pass* is the share of attempts whose testbench ran and has coverage.
*Coverage pass* is the share that reached the design's threshold, i.e. Pass@1. *Pass@k* is the
probability that at least one of k attempts reached it, if the k are drawn without replacement from
the n attempts (the unbiased estimator 1 - C(n-c, k) / C(n, k) of Chen et al., arXiv 2107.03374).
*Coverage* is the mean overall average, 0 for failed simulations. *Plan* is the mean covered share
of the design's plan, where it has one. *Bugs* is the mean share of the mutants in the design's
folder whose outputs differed. *Mutation* is the mean mutation score (`hdl.simulate.trial`): of
mutants that are made, the share that the testbench notices; for stimulus programs, which have no
checks, the share whose outputs differ. For several designs, each measure is the mean over designs
with equal weights.

Two kinds of attempts are compared on the same designs. The interval of their mean difference is the
percentile bootstrap over designs (Efron 1979), which draws both results of a design together. It
shows how much the difference depends on the choice of these designs. It includes the chance within
a design to the extent that the number of attempts does.
"""

from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean
from typing import Any, Literal, get_args

import msgspec
import numpy as np

K = 5
RESAMPLES = 10_000
CONFIDENCE = 0.95

Measure = Literal["sim_pass", "cov_pass", "pass_at_5", "coverage", "plan", "bugs", "mutation"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
"""Measures in the order of display."""


class Attempted(msgspec.Struct, frozen=True, kw_only=True):
    """Measures of one attempt at a design, from its best testbench."""

    ran: bool
    coverage: float
    """Overall average, 0..1; 0 if the testbench did not run."""

    passed: bool
    steps: int
    """Number of requested testbenches."""

    calls: int
    """Number of simulator calls; a step without a testbench makes none."""

    plan: float | None = None
    """Covered share of the plan; None without a plan."""

    bugs: float | None = None
    """Share of the mutants that it kills; None if bugs are left out."""

    mutation: float | None = None
    """Mutation score; None if bugs are left out."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Measures of one kind of attempt, on one design or averaged over several; shares are 0..1."""

    attempts: float
    """n: attempts at each design."""

    calls: float
    """Mean number of simulator calls of an attempt."""

    sim_pass: float
    cov_pass: float
    """Pass@1."""

    pass_at_5: float | None
    """None with fewer than five attempts."""

    coverage: float
    plan: float | None
    """None without a plan."""

    bugs: float | None
    """None if bugs are left out."""

    mutation: float | None
    """None if bugs are left out."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Mean difference of two kinds of attempts, over the designs of a split."""

    of: str
    minus: str
    measure: Measure
    mean: float
    low: float
    high: float
    """Ends of the 95 % interval, together with ``low``."""

    designs: int


def pass_at(k: int, attempts: int, passed: int) -> float | None:
    """Return the probability that one of k attempts passed; None for k > attempts."""
    if k > attempts:
        return None
    return 1 - comb(attempts - passed, k) / comb(attempts, k)


def score(attempts: Sequence[Attempted]) -> Score:
    """Return the score of at least one attempt at one design."""
    passed = sum(each.passed for each in attempts)
    return Score(
        attempts=len(attempts),
        calls=fmean(each.calls for each in attempts),
        sim_pass=fmean(each.ran for each in attempts),
        cov_pass=passed / len(attempts),
        pass_at_5=pass_at(K, len(attempts), passed),
        coverage=fmean(each.coverage for each in attempts),
        plan=_mean([each.plan for each in attempts]),
        bugs=_mean([each.bugs for each in attempts]),
        mutation=_mean([each.mutation for each in attempts]),
    )


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean of the scores of at least one design."""
    names = Score.__struct_fields__
    means: Any = {name: _mean([getattr(each, name) for each in scores]) for name in names}
    return Score(**means)


def difference(
    of: str, minus: str, measure: Measure, designs: Sequence[Mapping[str, Score]], seed: int
) -> Difference | None:
    """Return ``of`` minus ``minus``, given the scores of each design by kind of attempt.

    Designs for which either lacks the measure are left out; None if no design remains.
    """
    both = [(_of(each[of], measure), _of(each[minus], measure)) for each in designs]
    gains = [one - other for one, other in both if one is not None and other is not None]
    if not gains:
        return None
    low, high = interval(gains, seed)
    return Difference(
        of=of,
        minus=minus,
        measure=measure,
        mean=fmean(gains),
        low=low,
        high=high,
        designs=len(gains),
    )


def interval(gains: Sequence[float], seed: int) -> tuple[float, float]:
    """Return the ends of the bootstrap interval of the mean of at least one gain."""
    drawn = np.random.default_rng(seed).integers(len(gains), size=(RESAMPLES, len(gains)))
    means = np.sort(np.asarray(gains, dtype=np.float64)[drawn].mean(axis=1))
    outside = round((1 - CONFIDENCE) / 2 * RESAMPLES)
    return float(means[outside]), float(means[-1 - outside])


def _of(found: Score, measure: Measure) -> float | None:
    return getattr(found, measure)


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None

"""Compares testbenches by their coverage, exactly.

Coverage consists of counts, so averages are fractions here, and whether a threshold is met does not
depend on rounding: a gain of one point in a hundred is a gain of 0.01.
"""

import hashlib
from fractions import Fraction

import msgspec

from coevolve.environments.hdl.policy.transition import (
    Blank,
    DesignState,
    Graded,
    coverage_of,
)
from coevolve.environments.hdl.simulate.messages import COVERAGE_ALONE, Coverage, reward_of
from coevolve.environments.hdl.simulate.reward import RewardConfig


def state_key(design_id: str, state: DesignState) -> str:
    """Return a hash that is the same for equal testbenches with equal outcomes on one design."""
    if isinstance(state, Blank):
        content = (design_id,)
    else:
        content = (design_id, state.testbench, msgspec.json.encode(state.outcome).decode())
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def average(coverage: Coverage | None) -> Fraction:
    """Return the overall average, 0..1; 0 without coverage."""
    if coverage is None or not coverage.kinds:
        return Fraction(0)
    shares = [Fraction(kind.covered, kind.total) for kind in coverage.kinds]
    return sum(shares, Fraction(0)) / len(shares)


def merit(state: DesignState, weights: RewardConfig = COVERAGE_ALONE) -> Fraction:
    """Return what a testbench earns, 0..1: the overall average, or what the weights make of it."""
    if weights == COVERAGE_ALONE or not isinstance(state, Graded):
        return average(coverage_of(state))
    return max(Fraction(0), Fraction(reward_of(state.outcome, weights)) - 1)


def exact(share: float) -> Fraction:
    """Return the number as written in decimal, not its nearest binary value."""
    return Fraction(repr(share))


def meets(coverage: Coverage | None, threshold: float) -> bool:
    """Return whether the overall average is at least ``threshold``, without rounding."""
    return average(coverage) >= exact(threshold)


def gain(before: DesignState, after: DesignState) -> Fraction:
    """Return the increase of the overall average, -1..1."""
    return average(coverage_of(after)) - average(coverage_of(before))


def falls(before: Coverage, after: Coverage) -> tuple[str, ...]:
    """Return the kinds whose share fell, or that are missing after."""
    now = {kind.metric: Fraction(kind.covered, kind.total) for kind in after.kinds}
    return tuple(
        kind.metric
        for kind in before.kinds
        if now.get(kind.metric, Fraction(-1)) < Fraction(kind.covered, kind.total)
    )

"""What curation compares: how well a testbench did, exactly.

Coverage is counts, so averages are fractions here and a threshold is met or not, whatever the
rounding: a gain of one point in a hundred is a gain of 0.01.
"""

import hashlib
from collections.abc import Sequence
from fractions import Fraction

import msgspec

from coevolve.environments.hdl.policy.transition import Blank, DesignState, coverage_of
from coevolve.environments.hdl.simulate.messages import Coverage


def state_key(design_id: str, state: DesignState) -> str:
    """Return the same hash for equal testbenches with equal outcomes on one design."""
    if isinstance(state, Blank):
        said = (design_id,)
    else:
        said = (design_id, state.testbench, msgspec.json.encode(state.outcome).decode())
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()


def average(coverage: Coverage | None) -> Fraction:
    """Return the overall average, 0..1; 0 where there is none."""
    if coverage is None or not coverage.kinds:
        return Fraction(0)
    shares = [Fraction(kind.covered, kind.total) for kind in coverage.kinds]
    return sum(shares, Fraction(0)) / len(shares)


def exact(share: float) -> Fraction:
    """Return the decimal that was written, not its nearest binary number."""
    return Fraction(repr(share))


def meets(coverage: Coverage | None, threshold: float) -> bool:
    """Return whether the overall average is at least ``threshold``, to the point."""
    return average(coverage) >= exact(threshold)


def gain(before: DesignState, after: DesignState) -> Fraction:
    """Return by how much the overall average rose, -1..1."""
    return average(coverage_of(after)) - average(coverage_of(before))


def reached(goal: Sequence[int], state: DesignState) -> tuple[int, ...]:
    """Return the points of ``goal`` that the state covers."""
    coverage = coverage_of(state)
    return tuple(point for point in goal if coverage is not None and coverage.hit(point))


def falls(before: Coverage, after: Coverage) -> tuple[str, ...]:
    """Return the kinds whose share fell, or that are gone."""
    now = {kind.metric: Fraction(kind.covered, kind.total) for kind in after.kinds}
    return tuple(
        kind.metric
        for kind in before.kinds
        if now.get(kind.metric, Fraction(-1)) < Fraction(kind.covered, kind.total)
    )

"""Divides a design's coverage points into regions, small groups that signals and goals name.

A design has hundreds of points, and a testbench that reaches one usually reaches its neighbours.
Regions are a partition of the points that count, and depend on the points alone. A region has
points of one kind in one instance that are close together (toggles of one signal, states or arcs of
one file, else lines at most `NEAR_LINES` apart), at most `MOST_POINTS`. They are sorted by
usefulness as in `hdl.coverage.holes.ORDER`, states before arcs, then by place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from coevolve.environments.hdl.coverage.holes import ORDER, reachable
from coevolve.environments.hdl.coverage.points import point_text
from coevolve.environments.hdl.simulate.messages import Point, Unit
from protocols.evolution import OnPattern

MOST_POINTS = 8
NEAR_LINES = 3


@dataclass(frozen=True, kw_only=True)
class Region:
    """Neighbouring points of one kind."""

    name: str
    """Its first point, as `hdl.coverage.points.point_text` writes it, and the number of others."""

    points: tuple[int, ...]
    """At least one index in the design's set of points."""


def regions(points: Sequence[Point], unit: Unit) -> tuple[Region, ...]:
    """Return the design's regions."""
    counted = sorted(reachable(points, unit), key=lambda index: (*_order(points[index]), index))
    made: list[Region] = []
    for _, together in groupby(counted, key=lambda index: _company(points[index])):
        made += [_region(points, each) for each in _cut(points, tuple(together))]
    return tuple(made)


def about(design: str, region: Region) -> OnPattern:
    """Return the pattern that a signal about the region names."""
    return OnPattern(kind="coverage_bin", pattern=f"{design} {region.name}")


def design_of(pattern: OnPattern) -> str:
    """Return the design that a signal's pattern names."""
    return pattern.pattern.partition(" ")[0]


def named(pattern: OnPattern, found: Sequence[Region]) -> Region | None:
    """Return the region that a signal's pattern names; None if the design has no such region."""
    name = pattern.pattern.partition(" ")[2]
    return next((region for region in found if region.name == name), None)


def _company(point: Point) -> tuple[str, ...]:
    signal = point.name.partition(":")[0].partition("[")[0] if point.metric == "toggle" else ""
    arc = "arc" if point.metric == "fsm" and "->" in point.name else ""
    return point.metric, point.instance, point.file, signal + arc


def _order(point: Point) -> tuple[int, str, str, str, int, int]:
    _, instance, file, part = _company(point)
    return ORDER.index(point.metric), instance, file, part, point.line, point.column


def _cut(points: Sequence[Point], together: Sequence[int]) -> list[list[int]]:
    """Return the points in parts that are small enough and have no gaps between lines."""
    parts: list[list[int]] = [[]]
    for index in together:
        before = parts[-1]
        far = before and points[index].line - points[before[-1]].line > NEAR_LINES
        if len(before) == MOST_POINTS or (far and points[index].metric != "fsm"):
            parts.append([])
        parts[-1].append(index)
    return parts


def _region(points: Sequence[Point], indices: Sequence[int]) -> Region:
    further = f" and {len(indices) - 1} by it" if len(indices) > 1 else ""
    return Region(name=point_text(points[indices[0]]) + further, points=tuple(indices))

"""Reads Verilator's coverage file, and scores it over a design's own, fixed set of points.

A record counts if its instance is the DUT or inside it. Kinds are Verilator's line, branch, expr
and toggle, fsm for the lines that `hdl.coverage.instrument` added, and plan (`hdl.coverage.plan`).
Other records (covergroups of the testbench, cover statements of the design itself) have no kind and
are skipped.

Files and messages write a point as ``metric file:line:column instance name``. The instance is ``-``
for the DUT itself, the name may contain blanks, and the lines that are executed with the point are
left out.
"""

import difflib
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from coevolve.environments.hdl.coverage.instrument import ADDED, Instrumented
from coevolve.environments.hdl.coverage.scopes import plain_text
from coevolve.environments.hdl.simulate.messages import (
    METRICS,
    Coverage,
    KindCount,
    Metric,
    Point,
    Unit,
)
from protocols.errors import ConfigError

DUT = "-"

PAGES: Mapping[str, Metric] = {
    "v_line": "line",
    "v_branch": "branch",
    "v_expr": "expr",
    "v_toggle": "toggle",
}
"""Page of a record in Verilator's coverage files -> what it counts."""

_TEXT = re.compile(rf"(?:{'|'.join(METRICS)}) [A-Za-z0-9_][A-Za-z0-9_.-]*:\d+:\d+ \S+ \S.*\Z")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line of a coverage file."""

    page: str
    module: str
    file: str
    line: int
    column: int
    comment: str
    lines: str
    hierarchy: str
    bin_type: str
    crossed: str
    """The bins of a cross, with commas."""

    count: int


@dataclass(frozen=True, kw_only=True)
class PointSet:
    """All points of a design, in the order of `hdl.simulate.messages.Coverage.hits`."""

    points: tuple[Point, ...]
    sha256: str


def point_text(point: Point) -> str:
    """Return the point as ``metric file:line:column instance name``."""
    place = f"{point.file}:{point.line}:{point.column}"
    return f"{point.metric} {place} {point.instance or DUT} {point.name}"


def is_point_text(text: str) -> bool:
    """Return whether ``text`` has the form that `point_text` writes."""
    return _TEXT.match(text) is not None


def point_set(points: Iterable[Point]) -> PointSet:
    """Return ``points`` sorted, without duplicates, with their hash."""
    ordered = tuple(sorted(set(points)))
    return PointSet(
        points=ordered, sha256=hashlib.sha256(msgspec.msgpack.encode(ordered)).hexdigest()
    )


def records(text: str) -> Iterator[Record]:
    """Yield the records of a coverage file."""
    for line in plain_text(text).splitlines():
        if not line.startswith("C '"):
            continue
        fields_text, _, count = line[3:].rpartition("' ")
        fields = dict(field.split("\2", 1) for field in fields_text.split("\1") if "\2" in field)
        page, _, module = fields.get("page", "").partition("/")
        yield Record(
            page=page,
            module=module,
            file=fields.get("f", "").rpartition("/")[2],
            line=int(fields.get("l", 0)),
            column=int(fields.get("n", 0)),
            comment=fields.get("o", ""),
            lines=fields.get("S", ""),
            hierarchy=fields.get("h", ""),
            bin_type=fields.get("bin_type", ""),
            crossed=fields.get("Cb", ""),
            count=int(count),
        )


def counts(
    found: Iterable[Record], dut: str, instrumented: Instrumented, plan: Collection[str] = ()
) -> dict[Point, int]:
    """Return how often each point was hit.

    ``dut`` is the path of the DUT's instance, ``plan`` has the names of the plan's files.
    """
    made: dict[Point, int] = {}
    for record in found:
        inside = record.hierarchy == dut or record.hierarchy.startswith(f"{dut}.")
        if record.file in plan:
            point = planned(record, inside=inside)
        else:
            path = record.hierarchy[len(dut) + 1 :]
            point = _point(record, path, instrumented) if inside else None
        if point is not None:
            made[point] = made.get(point, 0) + record.count
    return made


def score(made: Mapping[Point, int], over: PointSet, unit: Unit) -> Coverage:
    """Return the coverage over the points of ``over``; other points are ignored."""
    hits = bytearray((len(over.points) + 7) // 8)
    excluded = frozenset(unit.unreachable)
    totals = dict.fromkeys(METRICS, 0)
    covered = dict.fromkeys(METRICS, 0)
    for index, point in enumerate(over.points):
        hit = made.get(point, 0) > 0
        if hit:
            hits[index // 8] |= 1 << index % 8
        if not excluded or point_text(point) not in excluded:
            totals[point.metric] += 1
            covered[point.metric] += hit
    return Coverage(
        points_hash=over.sha256,
        hits=bytes(hits),
        kinds=tuple(
            KindCount(metric=metric, covered=covered[metric], total=totals[metric])
            for metric in METRICS
            if totals[metric]
        ),
    )


def check_points(over: PointSet, unit: Unit) -> None:
    """Raise ConfigError if the unit's frozen or unreachable points differ from ``over``."""
    if not over.points:
        raise ConfigError(f"design {unit.name}: needs at least one coverage point, found none")
    own = point_set(point for point in over.points if point.metric != "plan")
    if unit.points_sha256 and unit.points_sha256 != own.sha256:
        raise ConfigError(
            f"design {unit.name}: its {len(own.points)} points hash to {own.sha256}, but the "
            f"frozen hash is {unit.points_sha256}: the design, the instrumentation or Verilator "
            "changed since; if that is intended, run "
            "`coevolve hdl qualify --freeze`"
        )
    texts = [point_text(point) for point in over.points]
    faults = [_unknown(entry, texts) for entry in sorted(set(unit.unreachable) - set(texts))]
    if faults:
        raise ConfigError(f"design {unit.name}: unreachable: " + "; ".join(faults))


def _unknown(entry: str, texts: Sequence[str]) -> str:
    near = difflib.get_close_matches(entry, texts, 1, 0.0)
    return f"there is no point {entry!r}; did you mean {near[0]!r}?"


def planned(record: Record, *, inside: bool) -> Point | None:
    """Return the point that a record of a plan counts; None if it counts none.

    Covergroups have no path: the bins of a group's instances are one. ``inside`` says whether the
    record of a ``cover`` statement is of the design's instance.
    """
    match record.page:
        case "v_covergroup" if not record.bin_type:
            name = f"bin {record.hierarchy}"
            if record.crossed:
                name += f" ({record.crossed.replace(',', ' with ')})"
        case "v_user" if inside:
            name = f"cover {record.comment}"
        case _:
            return None
    return Point(
        metric="plan",
        file=record.file,
        line=record.line,
        column=record.column,
        instance="",
        name=name,
        lines="",
    )


def _point(record: Record, instance: str, instrumented: Instrumented) -> Point | None:
    metric = PAGES.get(record.page)
    if metric is None:
        return None
    if record.file == ADDED:
        return _fsm_point(record, instance, instrumented)
    return Point(
        metric=metric,
        file=record.file,
        line=record.line,
        column=record.column,
        instance=instance,
        name=record.comment,
        lines=record.lines,
    )


def _fsm_point(record: Record, instance: str, instrumented: Instrumented) -> Point | None:
    """Return the point that an added line counts; its other records count none."""
    fsm = instrumented.names.get(record.line)
    if fsm is None or (record.page, record.comment) != ("v_branch", "if"):
        return None
    return Point(
        metric="fsm",
        file=fsm.file,
        line=fsm.line,
        column=fsm.column,
        instance=instance,
        name=fsm.name,
        lines="",
    )

"""Coverage files in Verilator's own format: written for a design's points, and read and merged.

A written file has one record for each point of the design that can be covered, with count 1 or 0.
``verilator_coverage`` reads, merges and annotates it. States and arcs of state machines, which
Verilator's own files do not have, are records of the page ``v_user/coevolve_fsm``.

A file that is read may come from here or from any simulation by Verilator. The design is the only
instance of its top module there. A point that the file does not have is not covered, and a record
that is no point of the design is ignored; several files are merged by their union.
"""

from collections.abc import Iterable, Mapping, Sequence

from coevolve.environments.hdl.coverage.holes import reachable
from coevolve.environments.hdl.coverage.instrument import Instrumented
from coevolve.environments.hdl.coverage.points import (
    PAGES,
    PointSet,
    Record,
    counts,
    records,
    score,
)
from coevolve.environments.hdl.coverage.scopes import is_of
from coevolve.environments.hdl.simulate.messages import Coverage, Metric, Point, Unit
from protocols.errors import ConfigError

HEADER = "# SystemC::Coverage-3\n"
FSM = "coevolve_fsm"
DUT = "tb.dut"
"""Path of the design in a written file."""

_PAGES: Mapping[Metric, str] = {metric: page for page, metric in PAGES.items()}
_NOTHING_ADDED = Instrumented(files=(), names={})


def written(points: Sequence[Point], coverage: Coverage, unit: Unit) -> str:
    """Return the file of a coverage over ``points``."""
    lines = (
        f"C '{''.join(f'{chr(1)}{key}{chr(2)}{text}' for key, text in fields.items())}' {hit}\n"
        for fields, hit in (
            (_fields(points[index], unit), int(coverage.hit(index)))
            for index in reachable(points, unit)
        )
    )
    return HEADER + "".join(lines)


def merged(texts: Iterable[tuple[str, str]], over: PointSet, unit: Unit) -> Coverage:
    """Return the coverage of all files together, given as name and text.

    Raises ConfigError for a file that is no coverage file, or has no single instance of the design.
    """
    made: dict[Point, int] = {}
    for name, text in texts:
        for point, count in _read(name, text, unit).items():
            made[point] = made.get(point, 0) + count
    return score({_place(point): count for point, count in made.items()}, _places(over), unit)


def _read(name: str, text: str, unit: Unit) -> dict[Point, int]:
    try:
        found = list(records(text))
    except ValueError as error:
        raise ConfigError(f"{name}: needs a coverage file of Verilator, found {error}") from error
    plan = frozenset(file.name for file in unit.plan)
    made = counts(found, _instance(name, found, unit), _NOTHING_ADDED, plan)
    for each in found:
        if (each.page, each.module) == ("v_user", FSM):
            point = _fsm(each)
            made[point] = made.get(point, 0) + each.count
    return made


def _instance(name: str, found: Sequence[Record], unit: Unit) -> str:
    """Return the path of the design's only instance."""
    pages = _PAGES.values()
    paths = {
        each.hierarchy for each in found if each.page in pages and is_of(each.module, unit.top)
    }
    if len(paths) != 1:
        raise ConfigError(
            f"{name}: needs records of one instance of {unit.top}, found "
            f"{', '.join(sorted(paths)) or 'none'}; give a file of a simulation that has one"
        )
    return paths.pop()


def _fields(point: Point, unit: Unit) -> dict[str, str]:
    path = f"{DUT}.{point.instance}" if point.instance else DUT
    place = {"f": point.file, "l": str(point.line), "n": str(point.column)}
    name = point.name
    if point.metric == "plan":
        kind, _, name = name.partition(" ")
        if kind == "bin":
            return place | _bin(name)
        return place | {"page": "v_user/plan", "o": name, "h": path}
    if point.metric == "fsm":
        return place | {"page": f"v_user/{FSM}", "o": name, "h": path}
    module = point.instance.rpartition(".")[2] if point.instance else unit.top
    fields = {"page": f"{_PAGES[point.metric]}/{module}", "o": name, "h": path}
    return place | fields | ({"S": point.lines} if point.lines else {})


def _bin(name: str) -> dict[str, str]:
    """Return the fields of the bin of a covergroup, named as in `hdl.coverage.points.planned`."""
    path, _, crossed = name.partition(" (")
    group = path.partition(".")[0]
    fields = {"page": f"v_covergroup/{group}", "h": path}
    crossing = {"Cb": crossed.removesuffix(")").replace(" with ", ",")} if crossed else {}
    return fields | crossing


def _fsm(record: Record) -> Point:
    _, _, instance = record.hierarchy.partition(f"{DUT}.")
    return Point(
        metric="fsm",
        file=record.file,
        line=record.line,
        column=record.column,
        instance=instance,
        name=record.comment,
        lines="",
    )


def _place(point: Point) -> Point:
    """Return the point without its lines, which other flags of Verilator may write otherwise."""
    return Point(
        metric=point.metric,
        file=point.file,
        line=point.line,
        column=point.column,
        instance=point.instance,
        name=point.name,
        lines="",
    )


def _places(over: PointSet) -> PointSet:
    return PointSet(points=tuple(map(_place, over.points)), sha256=over.sha256)

"""Groups the coverage points that a testbench missed into gaps, as a person would name them.

A gap is one or more uncovered points of one kind at one place: the bits of a vector that never
toggled, as ranges; the combinations of one condition that never decided it; a state that was never
entered. Unreachable points (`hdl.simulate.messages.Unit.unreachable`) are left out.

Gaps are sorted by usefulness for the next testbench: by kind in the order of `ORDER`, states before
arcs, and arcs out of states that were never entered last; then by place.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from coevolve.environments.hdl.coverage.points import point_text
from coevolve.environments.hdl.simulate.messages import Coverage, Metric, Point, Unit

ORDER: tuple[Metric, ...] = ("plan", "fsm", "line", "branch", "expr", "toggle")

_TOGGLE = re.compile(r"(?P<signal>.*?)(?:\[(?P<bit>\d+)\])?:(?P<edge>0->1|1->0)\Z")
_WORD = re.compile(r"(?P<array>.*)\[(?P<index>\d+)\]\Z")
_NUMBER = re.compile(r"\d+")
_ARMS: Mapping[str, str] = {
    "if": "condition never true",
    "else": "condition never false",
    "cond_then": "condition of ?: never true",
    "cond_else": "condition of ?: never false",
}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Uncovered points of one kind at one place."""

    metric: Metric
    file: str
    line: int
    instance: str
    """Path of the submodule inside the DUT; empty for the DUT itself."""

    text: str
    """What never happened, in words."""

    points: tuple[int, ...]
    """Indices in the design's set of points."""


def reachable(points: Sequence[Point], unit: Unit) -> tuple[int, ...]:
    """Return the indices of the points that count, i.e. are not unreachable."""
    excluded = frozenset(unit.unreachable)
    if not excluded:
        return tuple(range(len(points)))
    return tuple(i for i, point in enumerate(points) if point_text(point) not in excluded)


def gaps(points: Sequence[Point], coverage: Coverage, unit: Unit) -> dict[Metric, list[Gap]]:
    """Return the gaps by kind in the order of `ORDER`; kinds without gaps are left out."""
    missed: dict[Metric, list[int]] = {metric: [] for metric in ORDER}
    for index in reachable(points, unit):
        if not coverage.hit(index):
            missed[points[index].metric].append(index)
    return {metric: _of_kind(metric, points, found) for metric, found in missed.items() if found}


def _of_kind(metric: Metric, points: Sequence[Point], missed: Sequence[int]) -> list[Gap]:
    match metric:
        case "plan":
            return [_gap(points, (i,), f"{points[i].name} never hit") for i in missed]
        case "fsm":
            return _states(points, missed)
        case "toggle":
            return _toggles(points, missed)
        case "expr":
            return _conditions(points, missed)
        case "branch":
            return _branches(points, missed)
        case "line":
            return [_unexecuted(points, i) for i in missed]


def _gap(
    points: Sequence[Point], indices: tuple[int, ...], text: str, line: int | None = None
) -> Gap:
    first = points[indices[0]]
    return Gap(
        metric=first.metric,
        file=first.file,
        line=first.line if line is None else line,
        instance=first.instance,
        text=text,
        points=indices,
    )


def _unexecuted(points: Sequence[Point], index: int) -> Gap:
    """Return the gap of a block, at its first executed line, which need not be the point's line."""
    point = points[index]
    first = _NUMBER.match(point.lines)
    several = point.lines[first.end() :] if first else ""
    text = f"never executed (lines {point.lines})" if several else "never executed"
    return _gap(points, (index,), text, int(first[0]) if first else None)


def _branches(points: Sequence[Point], missed: Sequence[int]) -> list[Gap]:
    """Merge both arms of a condition that was never evaluated into one gap."""
    made: list[Gap] = []
    for index in missed:
        name = points[index].name
        before = made[-1].points if made else ()
        if len(before) == 1 and _arms(points[before[0]], points[index]):
            never = _ARMS[name].replace("never false", "never reached")
            made[-1] = _gap(points, (*before, index), never)
        else:
            made.append(_gap(points, (index,), _ARMS.get(name, f"{name} never taken")))
    return made


def _arms(one: Point, other: Point) -> bool:
    """Return whether these are the two arms of one condition, which have neighbouring columns."""
    places = {(each.file, each.line, each.instance) for each in (one, other)}
    names = (one.name, other.name)
    together = names in {("if", "else"), ("cond_then", "cond_else")}
    return together and len(places) == 1 and other.column == one.column + 1


def _states(points: Sequence[Point], missed: Sequence[int]) -> list[Gap]:
    names = {(points[i].instance, points[i].name) for i in missed}

    def rank(index: int) -> tuple[int, int]:
        source, arrow, _ = points[index].name.partition("->")
        return (1 + ((points[index].instance, source) in names) if arrow else 0), index

    return [_gap(points, (i,), _state(points[i].name)) for i in sorted(missed, key=rank)]


def _state(name: str) -> str:
    return f"arc {name} never taken" if "->" in name else f"state {name} never entered"


def _conditions(points: Sequence[Point], missed: Sequence[int]) -> list[Gap]:
    def place(index: int) -> tuple[str, str, int, int]:
        point = points[index]
        return point.instance, point.file, point.line, point.column

    made: list[Gap] = []
    for _, group in groupby(sorted(missed, key=lambda i: (*place(i), i)), key=place):
        indices = tuple(group)
        made.append(_gap(points, indices, f"never {'; '.join(points[i].name for i in indices)}"))
    return sorted(made, key=lambda gap: gap.points)


@dataclass
class _Signal:
    """Bits of one signal that missed an edge; -1 is the bit of a signal of one bit."""

    points: list[int]
    rises: set[int]
    falls: set[int]


def _toggles(points: Sequence[Point], missed: Sequence[int]) -> list[Gap]:
    signals: dict[tuple[str, str, int, str], _Signal] = {}
    for index in missed:
        point = points[index]
        found = _TOGGLE.match(point.name)
        name = found["signal"] if found else point.name
        bit = int(found["bit"]) if found and found["bit"] else -1
        key = (point.instance, point.file, point.line, name)
        signal = signals.setdefault(key, _Signal([], set(), set()))
        signal.points.append(index)
        if not found or found["edge"] == "0->1":
            signal.rises.add(bit)
        if not found or found["edge"] == "1->0":
            signal.falls.add(bit)
    return _merge_words(points, signals)


def _merge_words(
    points: Sequence[Point], signals: Mapping[tuple[str, str, int, str], _Signal]
) -> list[Gap]:
    """Merge the words of an array that missed the same bits into one gap."""
    alike: dict[tuple[object, ...], list[tuple[int, _Signal]]] = {}
    for (*place, name), signal in signals.items():
        word = _WORD.match(name)
        array, index = (word["array"], int(word["index"])) if word else (name, -1)
        missed = (frozenset(signal.rises), frozenset(signal.falls))
        alike.setdefault((*place, array, *missed), []).append((index, signal))
    made: list[Gap] = []
    for key, words in alike.items():
        indices = tuple(sorted(point for _, signal in words for point in signal.points))
        name = f"{key[3]}{_ranges(index for index, _ in words)}"
        made.append(_gap(points, indices, _edges(name, words[0][1])))
    return sorted(made, key=lambda gap: gap.points)


def _edges(name: str, signal: _Signal) -> str:
    both = signal.rises & signal.falls
    parts = (
        (both, "never toggles"),
        (signal.rises - both, "never 0->1"),
        (signal.falls - both, "never 1->0"),
    )
    return "; ".join(f"{name}{_ranges(bits)} {text}" for bits, text in parts if bits)


def _ranges(numbers: Iterable[int]) -> str:
    """Return ``[7:4,2]`` for 7, 6, 5, 4 and 2; empty for -1 alone."""
    runs: list[list[int]] = []
    for number in sorted(numbers, reverse=True):
        if number < 0:
            continue
        if runs and runs[-1][1] == number + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(high) if high == low else f"{high}:{low}" for high, low in runs]
    return f"[{','.join(texts)}]" if texts else ""

"""Reports what a testbench did not cover, as text with a maximum length or as data.

An agent reads the text beside its testbench: kinds of coverage in the order of
`hdl.coverage.holes.ORDER`, each with its counts and its gaps. Each gap has its place and, for the
first gap at a place, the source line. The maximum length is in characters, so the text depends only
on its arguments. The kinds share it evenly; space that a kind does not need goes to the others. The
text states the number of points that did not fit.

The data has the fields of LLM4Cov's later ``cov_info.uncovered``; its blocks are lines or branches
here.
"""

from collections.abc import Iterator, Mapping, Sequence

from coevolve.environments.hdl.coverage.holes import Gap, gaps, reachable
from coevolve.environments.hdl.simulate.messages import Coverage, Metric, Point, Unit

ALL_COVERED = "Every point is covered.\n"
_SOURCE_CHARACTERS = 80

_TYPES: Mapping[Metric, str] = {
    "plan": "plan",
    "fsm": "fsm",
    "line": "block",
    "branch": "block",
    "expr": "expression",
    "toggle": "toggle",
}


def uncovered(points: Sequence[Point], coverage: Coverage, unit: Unit, limit: int) -> str:
    """Return the gaps in at most ``limit`` characters, as whole lines with their newlines.

    If gaps are left out and there is room, a line states how many points.
    """
    found = gaps(points, coverage, unit)
    if not found:
        return ALL_COVERED if limit >= len(ALL_COVERED) else ""
    totals = {kind.metric: kind for kind in coverage.kinds}
    sections: list[tuple[str, list[tuple[str, int]], Metric]] = []
    for metric, missed in found.items():
        kind = totals[metric]
        header = f"{metric}: {kind.total - kind.covered} of {kind.total} uncovered\n"
        sections.append((header, list(_lines(missed, unit)), metric))
    needs = [len(header) + sum(len(line) for line, _ in lines) for header, lines, _ in sections]
    shares = _shares(needs, limit)
    return "".join(
        _fit_section(*section, share) for section, share in zip(sections, shares, strict=True)
    )


def structured(points: Sequence[Point], coverage: Coverage, unit: Unit) -> dict[str, object]:
    """Return every gap as data for JSON: by type, counts by kind, and indices of points.

    ``bin_ids`` are the indices of uncovered points and ``covered_bin_ids`` those of covered points,
    in the set with the hash ``coverage.points_hash``; unreachable points are in neither.
    """
    by_type: dict[str, list[dict[str, object]]] = {name: [] for name in _TYPES.values()}
    for missed in gaps(points, coverage, unit).values():
        for gap in missed:
            by_type[_TYPES[gap.metric]].append(_entry(gap, points, unit))
    counted = reachable(points, unit)
    missing = [index for index in counted if not coverage.hit(index)]
    return {
        "by_type": by_type,
        "counts": {kind.metric: kind.total - kind.covered for kind in coverage.kinds},
        "total_uncovered": len(missing),
        "bin_ids": missing,
        "covered_bin_ids": [index for index in counted if coverage.hit(index)],
    }


def source_line(unit: Unit, file: str, line: int) -> str:
    """Return that line of the RTL without its indentation; empty if there is no such line."""
    for source in (*unit.files, *unit.plan):
        if source.name == file:
            lines = source.text.splitlines()
            return lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return ""


def _lines(missed: Sequence[Gap], unit: Unit) -> Iterator[tuple[str, int]]:
    """Yield a line and its number of points for each gap; quote each source line once."""
    quoted = set[tuple[str, int]]()
    for gap in missed:
        place = gap.file, gap.line
        source = "" if place in quoted else source_line(unit, *place)
        quoted.add(place)
        if len(source) > _SOURCE_CHARACTERS:
            source = source[: _SOURCE_CHARACTERS - 3] + "..."
        inside = f" in {gap.instance}" if gap.instance else ""
        quote = f" | {source}" if source else ""
        yield f"  {gap.file}:{gap.line}{inside} {gap.text}{quote}\n", len(gap.points)


def _shares(needs: Sequence[int], limit: int) -> list[int]:
    """Return even shares of the limit, none larger than needed."""
    shares = [0] * len(needs)
    left = limit
    for done, index in enumerate(sorted(range(len(needs)), key=lambda i: (needs[i], i))):
        shares[index] = min(needs[index], left // (len(needs) - done))
        left -= shares[index]
    return shares


def _fit_section(header: str, lines: Sequence[tuple[str, int]], metric: Metric, share: int) -> str:
    if share < len(header):
        return ""
    if share >= len(header) + sum(len(line) for line, _ in lines):
        return header + "".join(line for line, _ in lines)
    left = sum(count for _, count in lines)
    text = header
    for line, count in lines:
        if len(text) + len(line) + len(_more(left - count, metric)) > share:
            break
        text += line
        left -= count
    more = _more(left, metric)
    return text + more if len(text) + len(more) <= share else text


def _more(count: int, metric: Metric) -> str:
    return f"  ... and {count} more {metric} points\n" if count else ""


def _entry(gap: Gap, points: Sequence[Point], unit: Unit) -> dict[str, object]:
    entry: dict[str, object] = {
        "file": gap.file,
        "line": gap.line,
        "source": source_line(unit, gap.file, gap.line),
        "instance": gap.instance,
        "text": gap.text,
        "bin_ids": list(gap.points),
    }
    name = points[gap.points[0]].name
    match gap.metric:
        case "fsm":
            source, arrow, target = name.partition("->")
            named = {"from": source, "to": target} if arrow else {"state": source}
            entry |= {"kind": "transition" if arrow else "state", **named}
        case "toggle":
            entry["signal"] = name.rpartition(":")[0]
        case "expr":
            entry["index"] = [points[index].name for index in gap.points]
        case "line" | "branch" | "plan":
            entry["kind"] = gap.metric
    return entry

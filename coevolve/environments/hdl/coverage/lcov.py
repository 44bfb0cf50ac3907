"""Writes coverage of lines and branches in the format of lcov, which ``genhtml`` shows.

A line counts as executed if any point hit executes it. Points are hit or not, so counts are 1 or 0.
Other kinds of coverage, and unreachable points, have no place in the format and are left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from coevolve.environments.hdl.coverage.holes import reachable
from coevolve.environments.hdl.simulate.messages import Coverage, Point, Unit


def lcov(points: Sequence[Point], coverage: Coverage, unit: Unit, paths: Mapping[str, str]) -> str:
    """Return the records of all files of the design; ``paths`` has the path of each by its name."""
    counted = [
        (points[index], int(coverage.hit(index)))
        for index in reachable(points, unit)
        if points[index].metric in ("line", "branch")
    ]
    files = {
        file.name: [each for each in counted if each[0].file == file.name] for file in unit.files
    }
    return "".join(
        f"TN:\nSF:{paths.get(name, name)}\n{''.join(_records(found))}end_of_record\n"
        for name, found in files.items()
        if found
    )


def _records(found: Sequence[tuple[Point, int]]) -> Iterator[str]:
    lines = line_hits(found)
    branches = sorted(
        (point.line, point.column, point.name, point.instance, hit)
        for point, hit in found
        if point.metric == "branch"
    )
    for line, arms in groupby(branches, key=lambda each: each[0]):
        for number, arm in enumerate(arms):
            yield f"BRDA:{line},0,{number},{arm[-1]}\n"
    yield f"BRF:{len(branches)}\nBRH:{sum(each[-1] for each in branches)}\n"
    yield from (f"DA:{line},{hit}\n" for line, hit in sorted(lines.items()))
    yield f"LF:{len(lines)}\nLH:{sum(lines.values())}\n"


def line_hits(found: Iterable[tuple[Point, int]]) -> dict[int, int]:
    """Return, for each line that any point executes, 1 if a point hit does, else 0.

    ``found`` are points of lines and branches of one file, with 1 for those that were hit.
    """
    lines: dict[int, int] = {}
    for point, hit in found:
        for line in _executed_lines(point.lines):
            lines[line] = max(hit, lines.get(line, 0))
    return lines


def _executed_lines(text: str) -> Iterator[int]:
    """Yield the lines of ``12-14,17``."""
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)

"""The sources of a run's designs with the coverage points that its rollouts reached."""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from coevolve.environments.hdl.coverage.holes import reachable
from coevolve.environments.hdl.observer import DESIGN_POINTS, DesignPoints, DesignSummary
from coevolve.environments.hdl.simulate.messages import Point, SourceFile
from coevolve.environments.sdk import AnnotatedSource, SourceLine, environment_record
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader

_decoder = msgspec.msgpack.Decoder(DesignPoints)


async def annotated(reader: Reader, visits: Iterable[GroupSummary]) -> list[AnnotatedSource]:
    """Return the files of each design whose points the journal has; ``visits`` in their order."""
    summaries: dict[str, list[DesignSummary]] = {}
    for visit in visits:
        if visit.author == "policy" and visit.rollouts:
            summary = DesignSummary.of(visit)
            summaries.setdefault(summary.details.design, []).append(summary)
    found: list[AnnotatedSource] = []
    for design, groups in summaries.items():
        body = await environment_record(reader, DESIGN_POINTS, design)
        if body is not None:
            found += _files(design, _decoder.decode(body), groups)
    return found


def _files(
    design: str, known: DesignPoints, groups: Iterable[DesignSummary]
) -> list[AnnotatedSource]:
    counts = [
        np.frombuffer(each.details.counts, "<u2")
        for each in groups
        if each.details.points_hash == known.points_hash
    ]
    if not counts:
        return []
    ever, newest = np.any(counts, axis=0), counts[-1] > 0
    by_line: dict[tuple[str, int], list[int]] = {}
    for index in reachable(known.points, known.unit):
        point = known.points[index]
        by_line.setdefault((point.file, point.line), []).append(index)
    return [
        AnnotatedSource(
            name=f"{design}/{file.name}",
            groups=len(counts),
            lines=_lines(file, by_line, known.points, ever, newest),
        )
        for file in known.unit.files
    ]


def _lines(
    file: SourceFile,
    by_line: Mapping[tuple[str, int], list[int]],
    points: tuple[Point, ...],
    ever: NDArray[np.bool_],
    newest: NDArray[np.bool_],
) -> list[SourceLine]:
    lines: list[SourceLine] = []
    for number, text in enumerate(file.text.splitlines(), 1):
        here = by_line.get((file.name, number), [])
        lines.append(
            SourceLine(
                text=text,
                points=len(here),
                reached=int(ever[here].sum()),
                newest=int(newest[here].sum()),
                missed=tuple(_name(points[index]) for index in here if not ever[index]),
            )
        )
    return lines


def _name(point: Point) -> str:
    inside = f" in {point.instance}" if point.instance else ""
    return f"{point.metric} {point.name}{inside}"

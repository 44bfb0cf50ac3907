"""Line charts over steps. The name of each line stands at its end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.report.canvas import (
    COLOURS,
    LEFT,
    LINE_HEIGHT,
    RIGHT,
    TOP,
    drawing,
    level,
    rule,
    upright,
    words,
)
from coevolve.report.markup import Markup, clipped, joined, tag
from coevolve.report.scales import Scale, ceiling, number, spread_out, ticks

HEIGHT = 300.0
BOTTOM = HEIGHT - 44
DOTS = 40
"""A line with at most this many points shows a dot for each of them."""


@dataclass(frozen=True)
class Line:
    """One series."""

    name: str
    points: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...] = ()
    """Lower and upper bound of each point, drawn as a vertical bar; empty if there are none."""

    strong: bool = False
    """Whether the line is drawn thicker than the others."""


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    across: str,
    up: str,
    high: float | None = None,
    written: Callable[[float], str] = number,
) -> Markup:
    """Draw ``lines`` over axes that begin at 0; ``across`` and ``up`` are the axes' titles.

    ``high`` is the top of the vertical axis; the default is a round value above all points.
    """
    shown = [line for line in lines if line.points]
    xs = [x for line in shown for x, _ in line.points]
    ys = [y for line in shown for _, y in line.points]
    x = Scale(0.0, max(xs), LEFT + 8, RIGHT - 8)
    y = Scale(0.0, high if high is not None else ceiling(max(ys)), BOTTOM, TOP)
    places = [(x(mark), number(mark)) for mark in ticks(x.low, x.high, 8)]
    return drawing(
        title,
        HEIGHT,
        upright(y, up, written),
        level(places, BOTTOM, across),
        *(_line_marks(line, index, x, y, written) for index, line in enumerate(shown)),
        _names(shown, x, y, written),
    )


def _line_marks(
    line: Line, index: int, x: Scale, y: Scale, written: Callable[[float], str]
) -> Markup:
    kind = f"c{index % COLOURS}"
    weight = "strong" if line.strong else "thin"
    path = " ".join(f"{x(px):.1f},{y(py):.1f}" for px, py in line.points)
    parts = [tag("polyline", points=path, class_=f"line {weight} {kind}")]
    for (px, _), (low, high) in zip(line.points, line.bounds, strict=False):
        parts.append(rule(x(px), y(low), x(px), y(high), f"bound {kind}"))
    if len(line.points) <= DOTS:
        for px, py in line.points:
            label = tag("title", f"{line.name}, {number(px)}: {written(py)}")
            parts.append(tag("circle", label, cx=x(px), cy=y(py), r=3.5, class_=f"dot {kind}"))
    return joined(parts)


def _names(lines: Sequence[Line], x: Scale, y: Scale, written: Callable[[float], str]) -> Markup:
    """Return the name and last value of each line, placed beside its end without overlaps."""
    ends = [line.points[-1] for line in lines]
    heights = spread_out([y(py) for _, py in ends], LINE_HEIGHT, TOP, BOTTOM)
    parts: list[str] = []
    for index, (line, (px, py), height) in enumerate(zip(lines, ends, heights, strict=True)):
        parts.append(rule(x(px) + 5, y(py), RIGHT + 8, height, f"leader c{index % COLOURS}"))
        text = f"{clipped(line.name, 18)} {written(py)}"
        parts.append(words(RIGHT + 12, height, text, kind="name"))
    return joined(parts)

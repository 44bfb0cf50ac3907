"""Pictures that need no script: curves with bands, sparks and ranges, as SVG between labels.

The lines stretch with the page; the texts are HTML around them and keep their size. A mail reader
that runs no script shows them too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from coevolve.history.scales import evenly
from coevolve.history.score import Score
from coevolve.report.markup import Markup, joined, tag

TOPS = (0.1, 0.25, 0.5, 1.0)
"""Ends of an axis of shares; it has the lowest that is above all bands."""

TICKS = 6
"""Maximum number of labels on the horizontal axis."""

COLOURS = 7


@dataclass(frozen=True)
class Point:
    """A value with the ends of its band."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Trace:
    """One line of a picture."""

    name: str
    points: Sequence[Point]
    colour: int = 0
    thin: bool = False
    """Whether it is drawn thin and without a band."""


@dataclass(frozen=True)
class Stage:
    """A named part of a run that the background tells apart."""

    name: str
    first: float
    last: float


def scored(version: int, score: Score) -> Point:
    """Return a score with one standard error to both sides."""
    low, high = score.mean - score.std_error, score.mean + score.std_error
    return Point(version, score.mean, max(0.0, low), min(1.0, high))


def averaged(x: float, shares: Sequence[float]) -> Point:
    """Return the mean of two or more runs' shares with one standard error to both sides."""
    mean, error = fmean(shares), stdev(shares) / math.sqrt(len(shares))
    return Point(x, mean, max(0.0, mean - error), min(1.0, mean + error))


def plot(
    title: str,
    traces: Sequence[Trace],
    *,
    across: str,
    last: float = 0,
    stages: Sequence[Stage] = (),
    counts: bool = False,
) -> Markup:
    """Draw traces over an axis from 0 to at least ``last``, named ``across``.

    Values are shares, or with ``counts`` numbers, whose axis ends at the largest.
    """
    points = [point for trace in traces for point in trace.points]
    right = max((last, 1.0, *(point.x for point in points)))
    most = max((point.high for point in points), default=0.0)
    top = (most or 1.0) if counts else next((each for each in TOPS if each >= most), 1.0)
    marked = {p.x for trace in traces if not trace.thin for p in trace.points}
    ticks = range(round(right) + 1) if counts else sorted({0, *marked, right})
    shown = [ticks[place] for place in evenly(len(ticks), TICKS)]
    sides = [(each * top, f"{each * top:.0f}" if counts else _share(each * top)) for each in (0, 1)]
    if not counts:
        sides.insert(1, (top / 2, _share(top / 2)))
    return tag(
        "div",
        tag("div", *(_at("top", 100 - 100 * y / top, text) for y, text in sides), class_="up"),
        tag(
            "div",
            _drawn(traces, right, top, stages),
            *(_stage_name(each, right) for each in stages),
            *_told(traces, right, top, counts=counts),
            class_="plane",
        ),
        tag("div", *(_at("left", 100 * x / right, f"{x:.0f}") for x in shown), class_="along"),
        tag("small", across),
        class_="picture",
        role="img",
        aria_label=title,
    )


def spark(values: Sequence[float], title: str) -> Markup:
    """Draw values as a line in a row of text, from 0 to 1; nothing without values."""
    if not values:
        return Markup()
    across = 100 / max(1, len(values) - 1)
    places = [(across * place, 95 - 90 * value) for place, value in enumerate(values)]
    lines = [_line(places, "trace c0"), _dot(places[-1], "dot c0")]
    return _svg("spark", *lines, title=title)


def ranges(first: float | None, newest: float, low: float, high: float) -> Markup:
    """Draw a share in [0, 1] with its interval, and the way from its first value."""
    kind = "c0" if first in (None, newest) else "c2" if newest > (first or 0) else "c1"
    parts = [_line([(0, 50), (100, 50)], "grid"), _band([(100 * low, 20), (100 * high, 20)], kind)]
    if first is not None:
        parts += [
            _line([(100 * first, 50), (100 * newest, 50)], f"trace {kind}"),
            _dot((100 * first, 50), "dot start"),
        ]
    return _svg("range", *parts, _dot((100 * newest, 50), f"dot {kind}"))


def legend(traces: Iterable[Trace]) -> Markup:
    """Return the names of the traces beside their colours."""
    names = [
        tag("li", tag("span", class_=f"swatch s{each.colour % COLOURS}"), each.name)
        for each in traces
    ]
    return tag("ul", *names, class_="legend")


def _drawn(traces: Sequence[Trace], right: float, top: float, stages: Sequence[Stage]) -> Markup:
    parts = [
        tag(
            "rect",
            x=100 * each.first / right,
            width=100 * (each.last - each.first) / right,
            y=0,
            height=100,
            class_=f"stage n{place % 2}",
        )
        for place, each in enumerate(stages)
    ]
    parts += [_line([(0, y), (100, y)], "grid") for y in (0, 50, 100)]
    for trace in traces:
        colour = f"c{trace.colour % COLOURS}"
        places = [(100 * p.x / right, 100 - 100 * p.y / top) for p in trace.points]
        if trace.thin:
            parts.append(_line(places, f"trace thin {colour}"))
            continue
        lower = [(100 * p.x / right, 100 - 100 * p.low / top) for p in trace.points]
        upper = [(100 * p.x / right, 100 - 100 * p.high / top) for p in trace.points]
        if len(places) == 1:
            parts.append(_line([*lower, *upper], f"stem {colour}"))
        parts.append(_shape([*lower, *reversed(upper)], f"band {colour}"))
        parts.append(_line(places, f"trace {colour}"))
        if len(places) <= 2 * TICKS:
            parts += [_dot(place, f"dot {colour}") for place in places]
    return _svg("", *parts)


def _told(traces: Sequence[Trace], right: float, top: float, *, counts: bool) -> list[Markup]:
    """Return the first and the newest value of the only trace that is not thin."""
    strong = [each for each in traces if not each.thin and each.points]
    if len(strong) != 1:
        return []
    points = strong[0].points
    ends = [points[-1]] if counts or len(points) == 1 else [points[0], points[-1]]
    found: list[Markup] = []
    for each in ends:
        text = f"{each.y:,.0f}" if counts else f"{100 * each.y:.1f} %"
        left, up = 100 * each.x / right, 100 - 100 * each.high / top
        side = "before" if left > 50 else "after"
        found.append(tag("b", text, class_=side, style=f"left:{left:.2f}%;top:{up:.2f}%"))
    return found


def _stage_name(stage: Stage, right: float) -> Markup:
    left, width = 100 * stage.first / right, 100 * (stage.last - stage.first) / right
    return tag("i", stage.name, style=f"left:{left:.2f}%;width:{width:.2f}%")


def _at(side: str, place: float, text: str) -> Markup:
    return tag("span", text, style=f"{side}:{place:.2f}%")


def _share(value: float) -> str:
    return f"{100 * value:g} %"


def _svg(kind: str, *parts: str, title: str = "") -> Markup:
    """Return parts in the square from 0 to 100, which stretches to the size of its element."""
    named = {"role": "img", "aria_label": title} if title else {"aria_hidden": "true"}
    return tag(
        "svg",
        *parts,
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
        class_=f"drawn {kind}".rstrip(),
        **named,
    )


def _line(places: Sequence[tuple[float, float]], kind: str) -> Markup:
    return tag("polyline", points=_written(places), class_=kind)


def _shape(places: Sequence[tuple[float, float]], kind: str) -> Markup:
    return tag("polygon", points=_written(places), class_=kind)


def _band(ends: Sequence[tuple[float, float]], kind: str) -> Markup:
    (low, y), (high, _) = ends
    return _shape([(low, y), (high, y), (high, 100 - y), (low, 100 - y)], f"band {kind}")


def _dot(place: tuple[float, float], kind: str) -> Markup:
    """Return a dot: the round end of a line without a length, which no stretching deforms."""
    return tag("path", d=f"M{place[0]:.2f} {place[1]:.2f}h0", class_=kind)


def _written(places: Sequence[tuple[float, float]]) -> str:
    return joined([f"{x:.2f},{y:.2f} " for x, y in places]).rstrip()

"""The frame of a chart: size, axes and labels. The page's style sheet sets the colours."""

from collections.abc import Callable, Sequence

from coevolve.report.markup import Markup, joined, tag
from coevolve.report.scales import Scale, ticks

WIDTH = 760.0
LEFT = 56.0
RIGHT = 600.0
"""Right edge of the plot. The names of the series are to the right of it."""

TOP = 24.0
LINE_HEIGHT = 15.0
COLOURS = 7
"""Series colours of the style sheet: ``c0`` to ``c6``."""


def drawing(title: str, height: float, *children: str) -> Markup:
    """Return an SVG that scales with the page and has ``title`` as its label."""
    return tag(
        "svg",
        tag("title", title),
        *children,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_label=title,
    )


def words(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> Markup:
    """Return one line of text, centred on height ``y``."""
    attributes: dict[str, str | float] = {"class_": kind} if kind else {}
    return tag("text", text, x=x, y=y + 4, text_anchor=anchor, **attributes)


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def block(x: float, y: float, width: float, height: float, kind: str, title: str) -> Markup:
    """Return a rectangle with ``title`` as its tooltip."""
    return tag("rect", tag("title", title), x=x, y=y, width=width, height=height, class_=kind)


def upright(y: Scale, title: str, written: Callable[[float], str]) -> Markup:
    """Return the vertical axis: the title on top and light lines across the plot."""
    marks: list[str] = [words(4, 8, title, kind="axis")]
    for value in ticks(y.low, y.high):
        marks.append(rule(LEFT, y(value), RIGHT, y(value), "grid" if value else "base"))
        marks.append(words(LEFT - 6, y(value), written(value), anchor="end", kind="tick"))
    return joined(marks)


def level(places: Sequence[tuple[float, str]], bottom: float, title: str) -> Markup:
    """Return the horizontal axis: a label at each place and the title below."""
    labels = [words(x, bottom + 12, text, anchor="middle", kind="tick") for x, text in places]
    middle = words((LEFT + RIGHT) / 2, bottom + 30, title, anchor="middle", kind="axis")
    return joined([*labels, middle])


def thinned(places: Sequence[tuple[float, str]], gap: float = 46.0) -> list[tuple[float, str]]:
    """Return the places without those less than ``gap`` after the last one kept."""
    kept: list[tuple[float, str]] = []
    for place in places:
        if not kept or place[0] - kept[-1][0] >= gap:
            kept.append(place)
    return kept

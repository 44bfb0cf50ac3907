"""Bar charts of counts: stacked columns over bins of steps, and named rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.report.canvas import (
    COLOURS,
    LEFT,
    LINE_HEIGHT,
    RIGHT,
    TOP,
    block,
    drawing,
    level,
    thinned,
    upright,
    words,
)
from coevolve.report.markup import Markup, clipped, joined, tag
from coevolve.report.scales import Scale, ceiling, number

HEIGHT = 280.0
BOTTOM = HEIGHT - 44
ROW = 22.0
NAMES = 210.0
"""Right edge of the row names."""

SMALL = 48
SMALL_STEP = 9.0
SMALL_HEIGHT = 34.0


@dataclass(frozen=True)
class Layer:
    """One series of stacked columns."""

    name: str
    amounts: tuple[float, ...]
    """One amount per column."""


def stacked_chart(
    title: str, columns: Sequence[str], layers: Sequence[Layer], *, across: str, up: str
) -> Markup:
    """Draw one column for each name in ``columns``, the first layer at the bottom."""
    totals = [sum(layer.amounts[index] for layer in layers) for index in range(len(columns))]
    y = Scale(0.0, ceiling(max(totals)), BOTTOM, TOP)
    step = (RIGHT - LEFT) / len(columns)
    places = [(LEFT + step * (index + 0.5), name) for index, name in enumerate(columns)]
    blocks: list[str] = []
    for index, name in enumerate(columns):
        below = 0.0
        for order, layer in enumerate(layers):
            amount = layer.amounts[index]
            if amount > 0:
                label = f"{name}: {layer.name} {number(amount)}"
                height = y(below) - y(below + amount)
                x = LEFT + step * index + step * 0.08
                kind = f"fill c{order % COLOURS}"
                blocks.append(block(x, y(below + amount), step * 0.84, height, kind, label))
            below += amount
    return drawing(
        title,
        HEIGHT,
        upright(y, up, number),
        level(thinned(places), BOTTOM, across),
        *blocks,
        _key(layers),
    )


def row_chart(
    title: str,
    rows: Sequence[tuple[str, float]],
    *,
    written: Callable[[float], str] = number,
) -> Markup:
    """Draw a horizontal bar for each (name, amount) and write the amount at its end."""
    height = ROW * len(rows) + 4
    x = Scale(0.0, max(*(amount for _, amount in rows), 1e-12), NAMES, RIGHT + 40)
    parts: list[str] = []
    for index, (name, amount) in enumerate(rows):
        top = ROW * index + 2
        label = f"{name}: {written(amount)}"
        parts.append(words(NAMES - 8, top + ROW / 2 - 2, clipped(name, 32), anchor="end"))
        parts.append(block(NAMES, top, x(amount) - NAMES, ROW - 5, "fill c0", label))
        parts.append(words(x(amount) + 6, top + ROW / 2 - 2, written(amount)))
    return drawing(title, height, *parts)


def _key(layers: Sequence[Layer]) -> Markup:
    """Return the legend: the names of the layers beside the plot, in stacking order."""
    parts: list[str] = []
    for order, layer in enumerate(layers):
        y = BOTTOM - (LINE_HEIGHT + 3) * order - 8
        parts.append(block(RIGHT + 12, y - 5, 10, 10, f"fill c{order % COLOURS}", layer.name))
        parts.append(words(RIGHT + 27, y, clipped(layer.name, 20), kind="name"))
    return joined(parts)


def small_columns(title: str, columns: Sequence[tuple[str, int, int]]) -> Markup:
    """Draw columns from 0 to 1, one or two text lines high, from (label, part, whole).

    Only the newest `SMALL` columns are drawn.
    """
    shown = columns[-SMALL:]
    parts: list[str] = []
    for index, (label, part, whole) in enumerate(shown):
        full = SMALL_HEIGHT - 2
        height = full * part / whole if whole else 0.0
        x = SMALL_STEP * index
        parts.append(block(x, 1, SMALL_STEP - 2, full, "none", label))
        parts.append(block(x, 1 + full - height, SMALL_STEP - 2, height, "fill c0", label))
    return tag(
        "svg",
        tag("title", title),
        *parts,
        viewBox=f"0 0 {SMALL_STEP * len(shown):g} {SMALL_HEIGHT:g}",
        width=SMALL_STEP * len(shown),
        height=SMALL_HEIGHT,
        class_="small",
        role="img",
        aria_label=title,
    )

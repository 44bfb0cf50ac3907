"""Heat maps of shares: a larger share is darker, and each cell shows its number."""

from collections.abc import Mapping, Sequence

from coevolve.report.canvas import RIGHT, WIDTH, drawing, words
from coevolve.report.markup import Markup, clipped, tag

NAMES = 150.0
ROW = 20.0
WIDEST = 64.0
STRONGEST = 0.6
"""Opacity of a share of 100 %, low enough that the number on top stays readable."""

Cell = tuple[int, int]
"""Successes and attempts."""


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], Cell],
    *,
    across: str,
) -> Markup:
    """Draw the share of successes of each (row, column). A pair without attempts stays empty."""
    step = min(WIDEST, (WIDTH - NAMES - 8) / max(1, len(columns)))
    bottom = ROW * len(rows) + 2
    parts: list[str] = []
    for down, row in enumerate(rows):
        y = ROW * down + 2
        parts.append(words(NAMES - 8, y + ROW / 2, clipped(row, 24), anchor="end"))
        for along, column in enumerate(columns):
            done = cells.get((row, column), (0, 0))
            parts.append(_cell(NAMES + step * along, y, step, done, f"{row}, {column}"))
    for along, column in enumerate(columns):
        x = NAMES + step * (along + 0.5)
        parts.append(words(x, bottom + 12, column, anchor="middle", kind="tick"))
    middle = min(RIGHT, NAMES + step * len(columns) / 2)
    parts.append(words(middle, bottom + 30, across, anchor="middle", kind="axis"))
    return drawing(title, bottom + 42, *parts)


def _cell(x: float, y: float, width: float, done: Cell, where: str) -> Markup:
    successes, attempts = done
    share = successes / attempts if attempts else 0.0
    label = f"{where}: {successes} of {attempts}" if attempts else f"{where}: no attempts"
    box = tag(
        "rect",
        tag("title", label),
        x=x + 1,
        y=y + 1,
        width=width - 2,
        height=ROW - 2,
        class_="heat" if attempts else "none",
        fill_opacity=STRONGEST * share if attempts else 0.0,
    )
    text = f"{100 * share:.0f}" if attempts else ""
    return tag("g", box, words(x + width / 2, y + ROW / 2, text, anchor="middle", kind="cell"))

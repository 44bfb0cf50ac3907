"""Lines of a screen: foreign text that nobody obeys, cut to the width; curves and durations."""

import textwrap
from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from coevolve.base.visible import visible

BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
"""Heights of a curve, from low to high."""

ASCII = str.maketrans(
    dict(zip(BLOCKS, "__..--==", strict=True))
    | {
        "\u2501": "#",
        "\u2500": "-",
        "\u00b7": "-",
        "\u00b1": "~",
        "\u2713": "*",
        "\u2191": "^",
        "\u2193": "v",
        "\u2192": ">",
        "\u2026": "~",
    }
)
"""What a terminal without Unicode shows instead."""


def line(*pieces: tuple[str, str]) -> Text:
    """Return pieces of (text, style of Rich) as one line, without what acts on a terminal."""
    found = Text(no_wrap=True)
    for text, style in pieces:
        found.append(visible(" ".join(text.splitlines()).replace("\t", " ")), style)
    return found


def spread(left: Text, right: Text, width: int) -> Text:
    """Return two texts at the two ends of a line; ``left`` is cut if both do not fit."""
    room = max(width - right.cell_len - 2, 1)
    found = left.copy()
    found.truncate(room, overflow="ellipsis")
    found.pad_right(max(room - found.cell_len, 0) + 2)
    return found.append_text(right)


def fitted(lines: Sequence[Text], width: int, *, ascii_only: bool) -> Group:
    """Return lines that are cut to ``width`` columns; with ``ascii_only``, in ASCII."""
    shown: list[Text] = []
    for each in lines:
        found = each.copy()
        found.truncate(width, overflow="ellipsis")
        if ascii_only:
            found.plain = found.plain.translate(ASCII).encode("ascii", "replace").decode()
        shown.append(found)
    return Group(*shown)


def wrapped(mark: str, text: str, style: str, width: int, most: int | None = None) -> list[Text]:
    """Return a sentence on at most ``most`` lines, the first one after ``mark``."""
    indent = " " * len(mark)
    lines = textwrap.wrap(
        visible(text),
        max(width, len(mark) + 8),
        initial_indent=mark,
        subsequent_indent=indent,
        max_lines=most,
        placeholder=" \u2026",
    )
    return [line((each, style)) for each in lines]


def curve(values: Sequence[float], width: int, least: float = 0.0) -> str:
    """Return the newest ``width`` values as a curve of blocks; equal values lie in the middle.

    ``least`` is the smallest range of values that takes the whole height.
    """
    shown = values[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if high == low:
        return BLOCKS[len(BLOCKS) // 2] * len(shown)
    top, middle, height = len(BLOCKS) - 1, (low + high) / 2, max(high - low, least)
    return "".join(BLOCKS[round(top * ((value - middle) / height + 0.5))] for value in shown)


def duration(seconds: float) -> str:
    """Return a duration as ``0:07``, ``12:30`` or ``3:05:00``."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

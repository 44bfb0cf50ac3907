"""Ranges of steps, the text of numbers, and intervals of shares."""

import math


def bins(first: int, last: int, most: int) -> list[range]:
    """Return at most ``most`` ranges of one round width that cover ``first`` to ``last``.

    A range of width w begins at ``first`` plus a multiple of w; the last range may be shorter.
    """
    width = 1
    while (last - first + width) // width > most:
        width = next(w for w in _widths() if w > width)
    return [range(low, min(low + width, last + 1)) for low in range(first, last + 1, width)]


def bin_name(each: range) -> str:
    """Return ``7`` or ``1-10``, both ends included."""
    return str(each[0]) if len(each) == 1 else f"{each[0]}\N{EN DASH}{each[-1]}"


def evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` positions from 0 to ``count`` - 1, the first and last included."""
    if count <= most:
        return list(range(count))
    return sorted({round(number * (count - 1) / (most - 1)) for number in range(most)})


def number(value: float) -> str:
    """Return ``value`` with three significant digits: ``1,234``, ``12.5``, ``0.031``."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """Return a share in [0, 1] as ``66.3 %``."""
    return f"{100 * share:.1f} %"


def _widths() -> list[int]:
    return [m * 10**power for power in range(12) for m in (1, 2, 5)]

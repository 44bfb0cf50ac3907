"""Positions of marks in a chart, and the text of numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps values between ``low`` and ``high`` to positions between ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the position of ``value``."""
        span = self.high - self.low
        return self.start + (self.end - self.start) * ((value - self.low) / span if span else 0.5)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` round values from ``low`` to ``high``, a 1-2-5 step apart."""
    if high <= low:
        return [low]
    rough = (high - low) / (most - 1)
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def ceiling(value: float, most: int = 6) -> float:
    """Return the first tick at or above ``value`` of an axis from 0; 1 if ``value`` is <= 0."""
    if value <= 0:
        return 1.0
    marks = ticks(0, value, most)
    step = marks[1] if len(marks) > 1 else value
    return step * math.ceil(value / step - 1e-9)


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


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions near ``wanted``, in the same order, at least ``gap`` apart.

    All stay between ``low`` and ``high`` if there is enough room.
    """
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    placed = [0.0] * len(wanted)
    floor = low
    for number in order:
        placed[number] = max(wanted[number], floor)
        floor = placed[number] + gap
    roof = high
    for number in reversed(order):
        placed[number] = min(placed[number], roof)
        roof = placed[number] - gap
    return placed


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

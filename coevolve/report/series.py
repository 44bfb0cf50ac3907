"""The metrics of `metrics.jsonl` as series of bounded length."""

import json
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from protocols.errors import RunError

POINTS = 1000
"""Maximum number of points of a series. A longer one is divided into bins of equal width."""

STEP = "step"


@dataclass(frozen=True)
class Series:
    """One metric: for each bin that has values, its last step and their mean, least and largest."""

    steps: tuple[int, ...]
    means: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    newest: float
    """The newest value."""


@dataclass(frozen=True)
class RunSeries:
    """All metrics of one run."""

    name: str
    width: int
    """Steps of a bin; 1 if every value is a point."""

    metrics: Mapping[str, Series]


def read_series(path: Path, name: str, points: int = POINTS) -> RunSeries:
    """Return the metrics in the file ``path`` of the run ``name``, at most ``points`` of each.

    Numbers that are not finite are left out, and so is a last line that is still being written.
    Raises RunError if the file cannot be read; a missing file has no metrics.
    """
    columns: dict[str, tuple[array[int], array[float]]] = {}
    for line in _lines(path):
        step = int(line[STEP])
        for metric, value in line.items():
            if metric != STEP and math.isfinite(value):
                steps, values = columns.setdefault(metric, (array("q"), array("d")))
                steps.append(step)
                values.append(value)
    last = max((max(steps) for steps, _ in columns.values()), default=0)
    width = _width(last, points)
    found = {metric: _binned(*column, width) for metric, column in columns.items()}
    return RunSeries(name=name, width=width, metrics=found)


def _lines(path: Path) -> Iterator[dict[str, float]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                yield _parsed(line, path, number)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error}") from error


def _parsed(line: bytes, path: Path, number: int) -> dict[str, float]:
    try:
        found = json.loads(line)
        if isinstance(found[STEP], int) and all(isinstance(x, int | float) for x in found.values()):
            return found
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise RunError(
        f"{path}, line {number}: needs a JSON object of numbers with the field 'step'; restore the "
        "file, or remove it and continue the run, which writes it again"
    )


def _width(last: int, points: int) -> int:
    """Return the least of 1, 2, 5, 10, ... of which ``points`` bins cover steps 0 to ``last``."""
    width = 1
    while last // width >= points:
        digit = int(str(width)[0])
        width = width // digit * {1: 2, 2: 5, 5: 10}[digit]
    return width


def _binned(steps: Sequence[int], values: Sequence[float], width: int) -> Series:
    """Return the series; of several values of one step only the newest counts."""
    at, amount = np.asarray(steps), np.asarray(values)
    unique, newest = np.unique(at[::-1], return_index=True)
    amount = amount[::-1][newest]
    starts = np.flatnonzero(np.diff(unique // width, prepend=-1))
    ends = np.append(starts[1:], len(unique))
    means = np.add.reduceat(amount, starts) / (ends - starts)
    return Series(
        steps=tuple(unique[ends - 1].tolist()),
        means=tuple(means.tolist()),
        lows=tuple(np.minimum.reduceat(amount, starts).tolist()),
        highs=tuple(np.maximum.reduceat(amount, starts).tolist()),
        newest=float(amount[-1]),
    )

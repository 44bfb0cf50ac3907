"""The metrics of `metrics.jsonl` as series of bounded length, and those that are drawn together."""

import json
import math
import os
from array import array
from collections.abc import Mapping, Sequence
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
    name: str
    width: int
    """Steps of a bin; 1 if every value is a point."""

    metrics: Mapping[str, Series]


class SeriesFile:
    """A file `metrics.jsonl`, of which each line is read once."""

    def __init__(self, path: Path, name: str, points: int = POINTS) -> None:
        """Take the file of the run ``name``, for at most ``points`` points of each metric."""
        self._path = path
        self._name = name
        self._points = points
        self._forget()

    def _forget(self) -> None:
        self._read_bytes = 0
        self._lines = 0
        self._columns: dict[str, tuple[array[int], array[float]]] = {}

    def tag(self) -> str:
        """Return a text that changes when the file does."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return "none"
        return f"{status.st_size}.{status.st_mtime_ns}"

    def read(self) -> RunSeries:
        """Return the metrics that are in the file now.

        Numbers that are not finite are left out, and so is a last line that is still being written.
        Raises RunError if the file cannot be read; a missing file has no metrics.
        """
        self._read_new()
        last = max((max(steps) for steps, _ in self._columns.values()), default=0)
        width = _width(last, self._points)
        found = {metric: _binned(*column, width) for metric, column in self._columns.items()}
        return RunSeries(name=self._name, width=width, metrics=found)

    def _read_new(self) -> None:
        try:
            with self._path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._read_bytes:  # a resumed run cut it
                    self._forget()
                file.seek(self._read_bytes)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._add(_parsed(line, self._path, self._lines + 1))
                    self._lines += 1
                    self._read_bytes += len(line)
        except FileNotFoundError:
            self._forget()
        except OSError as error:
            raise RunError(f"{self._path}: cannot be read: {error}") from error

    def _add(self, line: dict[str, float]) -> None:
        step = int(line[STEP])
        for metric, value in line.items():
            if metric != STEP and math.isfinite(value):
                steps, values = self._columns.setdefault(metric, (array("q"), array("d")))
                steps.append(step)
                values.append(value)


def read_series(path: Path, name: str, points: int = POINTS) -> RunSeries:
    """Return the metrics in a file once; see `SeriesFile`."""
    return SeriesFile(path, name, points).read()


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


WAIT = "timing_s/wait"
COMPUTE = "timing_s/update_actor"
STEP_TIMES: Mapping[str, str] = {
    WAIT: "waiting for groups",
    "timing_s/save_checkpoint": "waiting for a checkpoint",
    COMPUTE: "optimizer step",
    "timing_s/save_weights": "writing weights",
}
"""Metric -> the name of its layer."""

MOVED = "source/objective/movement_share"
NOISE_SCALE = "gradient_noise/scale_groups"

DRAWN = (*STEP_TIMES, MOVED, NOISE_SCALE)
"""The metrics of steps that the report draws together, besides each alone."""

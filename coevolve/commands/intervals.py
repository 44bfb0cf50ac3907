"""Means with their intervals over seeds, by Student's t."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy import stats

LEVEL = 0.95

Bounds = tuple[float, float, float]
"""(mean, low, high); the bounds are NaN for a single number."""


def interval(numbers: Sequence[float]) -> Bounds:
    """Return the mean of ``numbers``, at least one, and its interval at `LEVEL`."""
    mean = fmean(numbers)
    if len(numbers) == 1:
        return mean, math.nan, math.nan
    error = stdev(numbers) / math.sqrt(len(numbers))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(numbers) - 1)) * error
    return mean, mean - half, mean + half


def told(bounds: Bounds, form: str = "+.1f") -> str:
    """Return the bounds as text for a table; ``none`` if there is no mean.

    ``form`` is that of each number; differences have a sign.
    """
    mean, low, high = bounds
    if math.isnan(mean):
        return "none"
    shown = f"{mean:{form}}"
    return shown if math.isnan(low) else f"{shown} [{low:{form}}, {high:{form}}]"

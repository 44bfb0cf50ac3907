"""The newest values of a few metrics of the steps, for curves and trends while a run goes on."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan, sqrt
from statistics import fmean, variance
from typing import Literal

REWARD = "critic/rewards/mean"
STEP_S = "timing_s/step"

CURVES = (
    REWARD,
    "actor/pg_loss",
    "actor/preference_loss",
    "actor/imitation_loss",
    "actor/kl_from_start",
    "actor/entropy",
    "actor/grad_norm",
    "perf/throughput",
    STEP_S,
)
"""Metrics whose newest values are kept."""

KEPT = 60
"""Number of values that are kept of each."""

SPAN = 10
"""Number of newest values that a trend compares with as many before them, or fewer."""

LEAST = 3
"""Minimum number of values on each side of a trend."""

Trend = Literal["up", "down", "level"]


def add(curves: dict[str, list[float]], metrics: Mapping[str, float]) -> None:
    """Append the metrics of a step to their curves; those that are not finite are left out."""
    for name in CURVES:
        if isfinite(metrics.get(name, nan)):
            curves[name] = [*curves.get(name, ()), metrics[name]][-KEPT:]


def trend(values: Sequence[float]) -> Trend | None:
    """Return where a curve goes; None if it is too short to say.

    It compares the mean of the newest `SPAN` values with that of as many before. A difference
    within two standard errors is ``level``, so noise alone is seldom called a trend.
    """
    span = min(SPAN, len(values) // 2)
    if span < LEAST:
        return None
    before, now = values[-2 * span : -span], values[-span:]
    difference = fmean(now) - fmean(before)
    error = sqrt((variance(before) + variance(now)) / span)
    if abs(difference) <= 2 * error:
        return "level"
    return "up" if difference > 0 else "down"


def seconds_left(curves: Mapping[str, Sequence[float]], steps: int) -> float | None:
    """Return the seconds that ``steps`` more steps take at the pace of the newest ones, or None."""
    newest = curves.get(STEP_S, ())[-SPAN:]
    return steps * fmean(newest) if newest else None

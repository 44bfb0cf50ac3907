"""About how long a run takes on this machine, and how many steps it can take.

Engine and learner run on the CPU, and their pace was measured here.
"""

from dataclasses import dataclass
from typing import NamedTuple

from coevolve.environments.tools.lengths import Lengths

RUN_S = 1200.0
"""Seconds that all steps should take."""

STEPS = (8, 40)
"""Least and most steps of a pretrained model, and the number for a small one."""

SMALL_STEPS = 60

DELIVERY_S = 4.0
"""Seconds in which a step hands its weights over, as measured for 135 million."""

ALONE = 1.6
"""Seconds of an attempt in a run, whose engine shares the cores, for one where it had them all."""

COLD = 0.25
"""Share of successful attempts below which a run begins with a warm start."""

REPLAYED = (8, 16)
"""Least and most references that each step imitates again."""

PROBED = 0.1
"""Share of probes among all rollouts, at most: the default of ``validator.probe_share``."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is known of model, machine and tasks."""

    weights: int
    trained_before: bool
    """Whether the weights are those of a pretrained model, not random ones."""

    positions: int
    """Longest conversation that the model supports, in tokens."""

    cache_bytes_a_token: int
    """Of an engine's keys and values; 0 if unknown."""

    lengths: Lengths
    references: bool
    held_out: int
    """Number of held-out tasks."""

    cores: int
    free_bytes: int
    """Free main memory."""

    free_disk: int
    """Free bytes of the disk with the runs."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast the model was here."""

    attempt_s: float
    """Seconds per attempt, many at a time, on all cores."""

    row_s: float
    """Seconds in which the learner reads a conversation and learns from it, on its cores."""

    success: float
    """Share of the attempts that succeeded."""

    makes_tasks: bool
    """Whether the loop makes tasks, and probes them with further attempts."""


def score_every(steps: int) -> int:
    """Return the number of steps from one score to the next."""
    return max(1, steps // 4)


def warm_steps(steps: int) -> int:
    """Return the most steps of a warm start."""
    return max(1, 3 * steps // 4)


def fitting_steps(pace: Pace, groups: int, size: int, known: Measured) -> int:
    """Return the largest number of steps whose run takes at most `RUN_S`, within `STEPS`."""
    least, most = STEPS
    fits = (n for n in range(most, least, -1) if run_seconds(pace, groups, size, known, n) <= RUN_S)
    return next(fits, least)


def run_seconds(pace: Pace, groups: int, size: int, known: Measured, steps: int) -> float:
    """Return about how long all steps take, with the scores of version 0 and after them."""
    is_cold = known.references and pace.success < COLD
    warm = warm_steps(steps) if is_cold else 0
    scores = len({*range(0, steps + 1, score_every(steps)), warm, steps})
    times = seconds(pace, groups, size, known)
    return warm * times.warm + (steps - warm) * times.loop + scores * times.score


def replayed(pace: Pace, groups: int, size: int, known: Measured) -> int:
    """Return how many references a step imitates again.

    As many as the learner reads in a step of a warm start until the engine is done.
    """
    least, most = REPLAYED
    engine_s = groups * size * pace.attempt_s * ALONE
    fits = engine_s / max(pace.row_s, 1e-9) - groups if known.cores > 1 else least
    return round(max(least, min(most, fits)))


class Seconds(NamedTuple):
    """About how long the pieces of a run take."""

    warm: float
    """A step of a warm start, which learns from a reference of each group and replays."""

    loop: float
    """A later step, which learns from all rollouts and replays, beside which probes are made."""

    score: float
    """All held-out tasks, once each, in the engine."""


def seconds(pace: Pace, groups: int, size: int, known: Measured) -> Seconds:
    """Return about how long the pieces of a run take."""
    rollouts = groups * size
    attempts = rollouts / (1 - PROBED) if pace.makes_tasks else rollouts
    again = replayed(pace, groups, size, known) if known.references else 0
    return Seconds(
        warm=_both(pace, rollouts, groups + again, known),
        loop=_both(pace, attempts, rollouts + again, known),
        score=known.held_out * pace.attempt_s * ALONE,
    )


def _both(pace: Pace, attempts: float, rows: float, known: Measured) -> float:
    """Return the seconds of a step with these attempts and rows.

    Engine and learner work at the same time, each on a half of the cores; on one core they take
    turns.
    """
    both = (attempts * pace.attempt_s * ALONE, rows * pace.row_s)
    return DELIVERY_S + (max(both) if known.cores > 1 else sum(both))

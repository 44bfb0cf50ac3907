"""How often the guard raises a false alarm, and which losses it finds, by simulation.

The canaries of each version pass or fail independently, each with a probability of its own. For
false alarms nothing changes in the whole run. For losses nothing changes until the last version,
which passes less; only an alarm at that version counts.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from coevolve.learning.guard import Guard
from protocols.learner_config import LearnerConfig
from protocols.learning import CanaryScores, TaskScore

CANARIES = 64

Probabilities = Sequence[float]
"""The probability to pass of each canary."""

POPULATIONS: dict[str, Probabilities] = {
    "all at one half": [0.5] * CANARIES,
    "spread from .05 to .95": np.linspace(0.05, 0.95, CANARIES).tolist(),
    "half at .1, half at .9": [0.1] * (CANARIES // 2) + [0.9] * (CANARIES // 2),
}
"""Populations of canaries, none of which changes in a run."""

LOSSES = tuple((before, lost) for before in (0.3, 0.5, 0.8) for lost in (0.15, 0.2, 0.3, 0.4, 0.5))
"""(Share of canaries passed before, share lost)."""

_MARKS = tuple(
    tuple(TaskScore(task_id=str(n), turns_passed=passed, turns_total=1) for n in range(CANARIES))
    for passed in (0, 1)
)


def scores(version: int, passed: Sequence[bool]) -> CanaryScores:
    """Return the record of a version's canaries."""
    marks = tuple(_MARKS[bool(each)][number] for number, each in enumerate(passed))
    return CanaryScores(version=version, scores=marks, errors=0)


def first_alarm(versions: Iterable[Probabilities], comparisons: int, seed: int) -> int | None:
    """Return the number of the first version with an alarm; None if there is none."""
    settings = LearnerConfig(steps=10 * comparisons)
    guard, generator = Guard(settings), np.random.default_rng(seed)
    for number, chances in enumerate(versions):
        passed = generator.random(CANARIES) < np.asarray(chances)
        guard.fold(scores(number * settings.guard.every, passed.tolist()))
        if guard.loss() is not None:
            return number
    return None


def false_alarms(chances: Probabilities, comparisons: int, runs: int) -> int:
    """Return how many of ``runs`` runs in which nothing changes have an alarm."""
    versions = [chances] * (comparisons + 1)
    return sum(first_alarm(versions, comparisons, seed) is not None for seed in range(runs))


def found(before: float, after: float, comparisons: int, runs: int) -> int:
    """Return in how many of ``runs`` runs a fall at the last comparison is found there."""
    versions = [[before] * CANARIES] * comparisons + [[after] * CANARIES]
    return sum(first_alarm(versions, comparisons, seed) == comparisons for seed in range(runs))


def main(arguments: list[str]) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench guard", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs of each kind")
    parser.add_argument("--comparisons", default="12,100", help="comparisons of a run")
    options = parser.parse_args(arguments)
    lengths = [int(each) for each in options.comparisons.split(",")]
    lines = ["runs with a false alarm, %"]
    for name, chances in POPULATIONS.items():
        counts = [false_alarms(chances, length, options.runs) for length in lengths]
        lines.append(_row(name, counts, options.runs))
    lines.append("losses found at the last comparison, %")
    for before, lost in LOSSES:
        if lost <= before:
            after = before - lost
            counts = [found(before, after, length, options.runs) for length in lengths]
            lines.append(_row(f"{before:.2f} -> {after:.2f}", counts, options.runs))
    sys.stdout.write("\n".join(lines) + "\n")


def _row(name: str, counts: Sequence[int], runs: int) -> str:
    return " ".join((f"  {name:24}", *(f"{100 * count / runs:8.1f}" for count in counts)))

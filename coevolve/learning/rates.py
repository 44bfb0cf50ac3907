"""Learning rates that fit a model's size: what a start chooses, and how far a run may exceed it.

The rule is a line through two settings in logarithms of size and rate: 2e-3 trains all weights of a
policy with 0.4 million, and 1e-6 those of one with 4 billion (CoEvolve) or more. An adapter takes
ten times as much, as in the run files for 7 and 30 billion weights; that gives 1e-4 for
SmolLM2-135M, which learned with it. Imitation takes ten times the rate of the objective, as
supervised training does. No rate exceeds that of the smallest policy.
"""

import math
from typing import assert_never

from protocols.learner_config import LearnerConfig
from protocols.learning import WeightsFormat

SMALLEST = (0.4e6, 2e-3)
"""Weights and rate of the smallest policy."""

LARGEST = (4e9, 1e-6)

ADAPTER = 10.0
"""Rate of an adapter, as a multiple of that for all weights."""

IMITATION = 10.0
"""Rate of imitation, as a multiple of the objective's."""

MOST_IMITATION = 4e-3

TOLERATED = 10.0
"""A run whose rate exceeds the usual one by more than this factor is refused."""


def usual_rate(weights: int, train: WeightsFormat) -> float:
    """Return the objective's rate for a model of that many weights, to one digit."""
    slope = math.log(LARGEST[1] / SMALLEST[1]) / math.log(LARGEST[0] / SMALLEST[0])
    full = max(SMALLEST[1] * (max(weights, 1) / SMALLEST[0]) ** slope, LARGEST[1])
    return _digit(min(full * (ADAPTER if train == "lora" else 1.0), SMALLEST[1]))


def imitation_rate(weights: int, train: WeightsFormat) -> float:
    """Return imitation's rate for a model of that many weights, to one digit."""
    return _digit(min(IMITATION * usual_rate(weights, train), MOST_IMITATION))


def excesses(learner: LearnerConfig, weights: int, train: WeightsFormat) -> list[str]:
    """Return a sentence with the remedy for each rate that is far too high for the model."""
    imitates = learner.imitation.weight > 0 or learner.imitation.replay_per_step > 0
    rates = (
        (
            "learner.learning_rate",
            0.0 if learner.only_imitates else learner.learning_rate,
            usual_rate(weights, train),
        ),
        (
            "learner.imitation.learning_rate",
            learner.imitation.learning_rate if imitates else 0.0,
            imitation_rate(weights, train),
        ),
    )
    trained = "an adapter" if train == "lora" else "all weights"
    return [
        f"{setting}: needs at most {_shown(TOLERATED * usual)} for {trained} of a model with "
        f"{weights / 1e6:.0f} million weights, found {_shown(found)}, which destroys what the "
        f"model can do; {_shown(usual)} is usual: set {setting}={_shown(usual)}"
        for setting, found, usual in rates
        if found > TOLERATED * usual * (1 + 1e-9)
    ]


def _shown(rate: float) -> str:
    """Return the rate as in run files: ``1e-4``."""
    digits, _, power = f"{rate:.0e}".partition("e")
    return f"{digits}e{int(power)}"


def _digit(rate: float) -> float:
    """Return the rate rounded down to one digit."""
    power = math.floor(math.log10(rate) + 1e-9)
    return float(f"{math.floor(rate / 10.0**power + 1e-9)}e{power}")


def rate_share(config: LearnerConfig, step: int) -> float:
    """Return the share of the full rate at ``step``, counted from 1: 0..1.

    It rises linearly until the last warm-up step; the next step has the full rate. From there,
    ``linear`` falls in equal steps and ``cosine`` along half a cosine. Both fall towards
    ``final_rate_share`` of the full rate, which step ``config.steps + 1`` would have.
    """
    warmup = config.warmup_steps
    if step <= warmup:
        return step / warmup
    done = min(1.0, (step - 1 - warmup) / max(1, config.steps - warmup))
    match config.schedule:
        case "constant":
            left = 1.0
        case "linear":
            left = 1.0 - done
        case "cosine":
            left = 0.5 * (1.0 + math.cos(math.pi * done))
        case _:
            assert_never(config.schedule)
    floor = config.final_rate_share
    return floor + (1.0 - floor) * left

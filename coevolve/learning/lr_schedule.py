"""The learning rate of each step as a share of the full rate; depends only on the config."""

import math
from typing import assert_never

from protocols.learner_config import LearnerConfig


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

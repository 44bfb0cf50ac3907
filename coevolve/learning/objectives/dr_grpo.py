"""Dr. GRPO: GRPO done right (Understanding R1-Zero-Like Training, arXiv 2503.20783).

    A_i = r_i - mean(r)
    loss = 1 / (G L) sum_i sum_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

Without the division by std(r), tasks that are nearly always or never solved get no extra weight;
without the division by the rollout's length (L is a constant), long failures are not favoured.
"""

from coevolve.learning.objectives.surrogate import Surrogate
from protocols.objectives import DrGrpo


def surrogate(objective: DrGrpo) -> Surrogate:
    """Return the objective in the terms of the clipped surrogate."""
    return Surrogate(
        standardized=False,
        ratio="token",
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        aggregation=objective.aggregation,
    )

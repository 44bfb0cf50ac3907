"""DAPO: Decoupled Clip and Dynamic sAmpling Policy Optimization (arXiv 2503.14476).

    A_i = (r_i - mean(r)) / std(r)
    loss = 1 / (sum_i |o_i|) sum_i sum_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

with high > low (clip-higher), the mean over all tokens of the batch, and groups whose rewards are
all equal replaced by others (dynamic sampling: `coevolve.learning.groups`).

Deviation: the paper's penalty for overlong answers is not part of it; a rollout that is cut off is
graded as a failure.
"""

from coevolve.learning.objectives.surrogate import Surrogate
from protocols.objectives import Dapo


def surrogate(objective: Dapo) -> Surrogate:
    """Return the objective in the terms of the clipped surrogate."""
    return Surrogate(
        standardized=True,
        ratio="token",
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        aggregation=objective.aggregation,
    )

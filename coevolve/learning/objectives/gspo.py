"""GSPO: Group Sequence Policy Optimization (arXiv 2507.18071).

    s_i = (pi(o_i | q) / pi_start(o_i | q)) ^ (1 / |o_i|) = exp(mean_t log rho_it)
    loss = mean_i -min(s_i A_i, clip(s_i, 1 - low, 1 + high) A_i)

with GRPO's advantages. A rollout is clipped as a whole; the bounds are some 1e-4 wide, because the
mean over a rollout's tokens moves far less than one token's ratio. Importance weights by token
count with their mean over the rollout; ``importance: sequence`` goes with the idea.
"""

from coevolve.learning.objectives.surrogate import Surrogate
from protocols.objectives import Gspo


def surrogate(objective: Gspo) -> Surrogate:
    """Return the objective in the terms of the clipped surrogate."""
    return Surrogate(
        standardized=True,
        ratio="sequence",
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        aggregation=objective.aggregation,
    )

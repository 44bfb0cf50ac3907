"""GRPO: Group Relative Policy Optimization (DeepSeekMath, arXiv 2402.03300).

    A_i = (r_i - mean(r)) / std(r)                      over the G rollouts of one task
    rho_it = pi(o_it | q, o_i<t) / pi_start(o_it | q, o_i<t)
    loss = mean_i mean_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

Deviations: advantages of outcomes only. The defaults of the config clip higher (DAPO) and divide by
a constant (Dr. GRPO); the paper's own form is ``clip_high: 0.2, aggregation: sequence_mean``. The
paper's divergence term is ``learner.kl_coefficient``, for every policy gradient.
"""

from coevolve.learning.objectives.surrogate import Surrogate
from protocols.objectives import Grpo


def surrogate(objective: Grpo) -> Surrogate:
    """Return the objective in the terms of the clipped surrogate."""
    return Surrogate(
        standardized=True,
        ratio="token",
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        aggregation=objective.aggregation,
    )

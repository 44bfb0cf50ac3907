"""Maps the policy gradients of the config to a clipped surrogate.

With rho_it = pi(o_it | q, o_i<t) / pi_start(o_it | q, o_i<t) and the G rollouts i of one task:

**GRPO**, Group Relative Policy Optimization (DeepSeekMath, arXiv 2402.03300)::

    A_i = (r_i - mean(r)) / std(r)
    loss = mean_i mean_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

Deviations: only outcome advantages. The config's defaults clip higher (DAPO) and divide by a
constant (Dr. GRPO); the paper's own form is ``clip_high: 0.2, aggregation: sequence_mean``. The
paper's divergence term is ``learner.kl_coefficient``, available for every policy gradient.

**Dr. GRPO**, GRPO done right (Understanding R1-Zero-Like Training, arXiv 2503.20783)::

    A_i = r_i - mean(r)
    loss = 1 / (G L) sum_i sum_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

Without the division by std(r), tasks that are nearly always or never solved get no extra weight;
without the division by the rollout's length (L is a constant), long failures are not favoured.

**DAPO**, Decoupled Clip and Dynamic sAmpling Policy Optimization (arXiv 2503.14476)::

    A_i = (r_i - mean(r)) / std(r)
    loss = 1 / (sum_i |o_i|) sum_i sum_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

with high > low (clip-higher), the mean over all tokens of the batch, and replacement of groups
whose rewards are all equal (dynamic sampling: `coevolve.learning.groups`). Deviation: without the
paper's penalty for overlong answers; a truncated rollout is graded as a failure.

**GSPO**, Group Sequence Policy Optimization (arXiv 2507.18071)::

    s_i = (pi(o_i | q) / pi_start(o_i | q)) ^ (1 / |o_i|) = exp(mean_t log rho_it)
    loss = mean_i -min(s_i A_i, clip(s_i, 1 - low, 1 + high) A_i)

with GRPO's advantages. A rollout is clipped as a whole. The bounds are some 1e-4 wide, because the
mean over a rollout's tokens changes far less than one token's ratio. Token-level importance weights
enter with their mean over the rollout; ``importance: sequence`` fits the method.
"""

from coevolve.learning.objectives.surrogate import Surrogate
from protocols.objectives import DrGrpo, Gspo, PolicyGradient


def surrogate(objective: PolicyGradient) -> Surrogate:
    """Return the objective as a clipped surrogate."""
    return Surrogate(
        scale_rewards=not isinstance(objective, DrGrpo),
        ratio="sequence" if isinstance(objective, Gspo) else "token",
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        aggregation=objective.aggregation,
    )

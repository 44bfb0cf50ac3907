"""GRPO: Group Relative Policy Optimization (DeepSeekMath, arXiv 2402.03300).

With rho_it = pi(o_it | q, o_i<t) / pi_start(o_it | q, o_i<t) and the G rollouts i of one task:

    A_i = (r_i - mean(r)) / std(r)
    loss = mean_i mean_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

Deviations: only outcome advantages. The defaults clip higher (DAPO) and divide by a constant (Dr.
GRPO); the paper's own form is ``clip_high: 0.2, aggregation: sequence_mean``. The paper's
divergence term is ``learner.kl_coefficient``, available for every policy gradient.
"""

from coevolve.learning.losses.policy_gradient import PolicyGradient
from protocols.objectives import Bound


class Grpo(PolicyGradient, frozen=True, kw_only=True, tag="grpo"):
    """Group-relative policy optimisation, with advantages in standard deviations of the group.

    The defaults are tested here; the paper has ``clip_high`` 0.2 and ``sequence_mean``.
    """

    clip_high: Bound = 0.28

"""Dr. GRPO: GRPO done right (Understanding R1-Zero-Like Training, arXiv 2503.20783).

    A_i = r_i - mean(r)
    loss = 1 / (G L) sum_i sum_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

with the ratio rho of `grpo`. Without the division by std(r), tasks that are nearly always or never
solved get no extra weight; without the division by the rollout's length (L is a constant), long
failures are not favoured.
"""

from typing import ClassVar

from coevolve.learning.losses.policy_gradient import PolicyGradient


class DrGrpo(PolicyGradient, frozen=True, kw_only=True, tag="dr_grpo"):
    """GRPO without its two biases: advantages are centred only, token losses summed."""

    scale_rewards: ClassVar[bool] = False

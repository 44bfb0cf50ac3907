"""GSPO: Group Sequence Policy Optimization (arXiv 2507.18071).

    s_i = (pi(o_i | q) / pi_start(o_i | q)) ^ (1 / |o_i|) = exp(mean_t log rho_it)
    loss = mean_i -min(s_i A_i, clip(s_i, 1 - low, 1 + high) A_i)

with the advantages and the ratio rho of `grpo`. A rollout is clipped as a whole. The bounds are
some 1e-4 wide, because the mean over a rollout's tokens changes far less than one token's ratio.
Token-level importance weights enter with their mean over the rollout; ``importance: sequence`` fits
the method.
"""

from typing import ClassVar, Literal

from coevolve.learning.losses.policy_gradient import PolicyGradient
from protocols.objectives import Aggregation, BelowOne, Bound


class Gspo(PolicyGradient, frozen=True, kw_only=True, tag="gspo"):
    """GRPO with one ratio for a whole rollout: the geometric mean of its tokens' ratios."""

    ratio: ClassVar[Literal["token", "sequence"]] = "sequence"
    clip_low: BelowOne = 3e-4
    clip_high: Bound = 4e-4
    aggregation: Aggregation = "sequence_mean"

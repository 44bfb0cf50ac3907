"""DAPO: Decoupled Clip and Dynamic sAmpling Policy Optimization (arXiv 2503.14476).

    A_i = (r_i - mean(r)) / std(r)
    loss = 1 / (sum_i |o_i|) sum_i sum_t -min(rho_it A_i, clip(rho_it, 1 - low, 1 + high) A_i)

with the ratio rho of `grpo`, high > low (clip-higher), the mean over all tokens of the batch, and
replacement of groups whose rewards are all equal (dynamic sampling: `coevolve.learning.groups`).
Deviation: without the paper's penalty for overlong answers; a truncated rollout is graded as a
failure.
"""

from coevolve.learning.losses.policy_gradient import PolicyGradient
from protocols.learner_config import LearnerConfig
from protocols.objectives import Aggregation, Bound


class Dapo(PolicyGradient, frozen=True, kw_only=True, tag="dapo"):
    """GRPO with the wider upper bound, the mean over tokens, and groups without variance refilled.

    A group in which every rollout failed is refilled only where references are not imitated.
    """

    clip_high: Bound = 0.28
    aggregation: Aggregation = "token_mean"

    def faults(self, learner: LearnerConfig) -> tuple[tuple[bool, str], ...]:
        return (
            (
                not learner.refill_batches,
                "$.learner.refill_batches: the objective dapo replaces groups without variance and "
                "needs 1 or more, found 0",
            ),
        )

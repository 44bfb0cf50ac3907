"""Supervised fine-tuning on the policy's own best rollouts, or on those of other authors.

    loss = 1 / (number of tokens) sum_t -log pi(o_t | q, o_<t)

In a run of the loop, the rows are the best rollouts of every group with different rewards:
rejection sampling, as in RAFT (arXiv 2304.06767) and expert iteration. In a stage of LLM4Cov (arXiv
2602.16953), they are the stage's execution-validated rows. The token loss is that of `imitation`
with weight 1.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coevolve.learning.losses.imitation import imitated
from coevolve.learning.objective import Objective
from coevolve.learning.rows import Row, conversations
from protocols.learner_config import LearnerConfig

if TYPE_CHECKING:
    from coevolve.learning.group import BatchGroup


class Sft(Objective, frozen=True, kw_only=True, tag="sft"):
    """Likelihood of the best rollouts of each group."""

    def rows(self, group: "BatchGroup", learner: LearnerConfig) -> Sequence[Row]:
        rewards = [rollout.reward for rollout in group.rollouts]
        worthy = best(rewards) if group.worthy is None else group.worthy
        return [imitated(side) for index in worthy for side in conversations(group.rollouts[index])]


def best(rewards_G: Sequence[float]) -> list[int]:
    """Return the positions of the highest reward; none if all rewards are equal."""
    if min(rewards_G) == max(rewards_G):
        return []
    return [index for index, reward in enumerate(rewards_G) if reward == max(rewards_G)]

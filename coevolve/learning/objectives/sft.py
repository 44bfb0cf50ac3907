"""Supervised fine-tuning, on given rows or on the policy's own best rollouts.

    loss = 1 / (number of tokens) sum_t -log pi(o_t | q, o_<t)

In a run of the loop, the rows are the best rollouts of every group with different rewards:
rejection sampling, as in RAFT (arXiv 2304.06767) and expert iteration. In a stage of LLM4Cov (arXiv
2602.16953), they are the stage's execution-validated rows. The token loss is that of `imitation`
with weight 1.
"""

from collections.abc import Sequence


def best(rewards_G: Sequence[float]) -> list[int]:
    """Return the positions of the highest reward; none if all rewards are equal."""
    if min(rewards_G) == max(rewards_G):
        return []
    return [index for index, reward in enumerate(rewards_G) if reward == max(rewards_G)]

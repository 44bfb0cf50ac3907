"""DPO: Direct Preference Optimization (arXiv 2305.18290).

    h(y) = log pi(y | x) - log pi_ref(y | x)
    loss = mean over pairs of -log sigmoid(beta (h(chosen) - h(rejected)))

The log-probability of a rollout is the sum over the tokens that the policy wrote; the environment's
tokens between them do not count. In a run of the loop, the simulator's rewards make the pairs: two
rollouts of one task with different rewards.
"""

from collections.abc import Sequence

import torch
from torch.nn.functional import logsigmoid


def pairs(rewards_G: Sequence[float]) -> list[tuple[int, int]]:
    """Return (chosen, rejected) pairs: best and worst, second best and second worst, and so on.

    No rollout is in two pairs, and equal rewards make no pair. Ties are ordered by position.
    """
    order = sorted(range(len(rewards_G)), key=lambda index: -rewards_G[index])
    return [
        (chosen, rejected)
        for chosen, rejected in zip(order, reversed(order), strict=True)
        if rewards_G[chosen] > rewards_G[rejected]
    ]


def losses(chosen_P: torch.Tensor, rejected_P: torch.Tensor, beta_P: torch.Tensor) -> torch.Tensor:
    """Return the loss of every pair from h of its chosen and h of its rejected side."""
    return -logsigmoid(beta_P * (chosen_P - rejected_P))

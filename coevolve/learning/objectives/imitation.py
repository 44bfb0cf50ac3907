"""Imitation of references, for groups in which every rollout failed.

    loss = sum_t -w log pi(o_t | q, o_<t)         over the tokens that the policy would have written

The advantages of such a group are all zero, so a policy gradient learns nothing from it, and a
policy never finds a tool that it has never tried. Imitation instead raises the probability of the
task's validated reference, and replays it later from a buffer of the newest references.
"""

import torch


def losses(logprobs_N: torch.Tensor, weights_N: torch.Tensor) -> torch.Tensor:
    """Return the weighted negative log-likelihood of every token."""
    return -weights_N * logprobs_N

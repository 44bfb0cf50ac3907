"""Imitation of references: what a group teaches in which every rollout failed.

    loss = sum_t -w log pi(o_t | q, o_<t)         over the tokens that the policy would have written

Its advantages are all zero, so a policy gradient learns nothing of it, and a policy never finds a
tool that it has never tried. The task's validated reference is made more likely instead, and drawn
again later from a buffer of the newest ones.
"""

import torch


def losses(logprobs_N: torch.Tensor, weights_N: torch.Tensor) -> torch.Tensor:
    """Return the weighted negative log-likelihood of every token."""
    return -weights_N * logprobs_N

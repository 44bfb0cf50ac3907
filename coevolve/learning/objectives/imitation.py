"""Imitation of references, for groups in which all or most rollouts failed.

    loss = sum_t -w log pi(o_t | q, o_<t)         over the tokens that the policy would have written

If all failed, the advantages are zero, so a policy gradient learns nothing, and a policy never
finds a tool that it has never tried; a single success teaches it little. Imitation instead raises
the probability of the task's validated reference, and replays it later from a buffer of the newest
references.
"""

import torch


def losses(logprobs_N: torch.Tensor, weights_N: torch.Tensor) -> torch.Tensor:
    """Return the weighted negative log-likelihood of every token."""
    return -weights_N * logprobs_N

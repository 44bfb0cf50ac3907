"""Group-relative policy gradient with masks, and imitation of references.

Letters: G rollouts of one group, N tokens that the policy wrote (of any number of rollouts).

Sources:

- GRPO (arXiv 2402.03300): A_i = (r_i - mean(r)) / std(r) over the group, std with denominator G;
  Dr. GRPO (arXiv 2503.20783) leaves the division out.
- PPO's clipped surrogate (arXiv 1707.06347) with the wider upper bound of DAPO (arXiv 2503.14476,
  clip-higher): -min(rho A, clip(rho, 1 - low, 1 + high) A).
- Decoupled PPO (AReaL, arXiv 2505.24298): rho compares with the policy at the start of the step,
  and what the sampler's own probabilities differ from those is corrected by an importance weight
  w = min(pi_start / pi_sampler, cap) (truncated importance sampling, as verl and SkyRL do).
- k3 estimator of KL(policy || reference): exp(d) - d - 1 with d = ref - policy.
- Dr. GRPO's constant normaliser: token losses are summed and divided by a constant, never by the
  length of the rollout, which would favour long failures.

All probabilities are those of the tempered distribution that rollouts are sampled from. A step is
one optimizer step, so pi_start is the policy itself, rho = 1, no clip binds, and the gradient is
that of -w A log pi; the clip matters to whoever takes several optimizer steps per batch.

Deviation: where every rollout of a group failed, its advantages are all zero and GRPO learns
nothing; here the task's validated reference is imitated (`imitation_losses`).
"""

import math
from collections.abc import Sequence

import torch

NO_SPREAD = 1e-8
"""Standard deviations below this are rounding errors of equal rewards."""


def advantages(rewards_G: Sequence[float], *, normalize: bool) -> list[float]:
    """Return how much better each rollout is than its group; all 0 where the rewards are equal."""
    mean = math.fsum(rewards_G) / len(rewards_G)
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards_G) / len(rewards_G))
    if std < NO_SPREAD:
        return [0.0] * len(rewards_G)
    return [(reward - mean) / (std if normalize else 1.0) for reward in rewards_G]


def importance_weights(
    start_logprobs_N: torch.Tensor, sampler_logprobs_N: torch.Tensor, *, cap: float
) -> torch.Tensor:
    """Return min(pi_start / pi_sampler, cap) per token, without gradient."""
    return (start_logprobs_N.detach() - sampler_logprobs_N).exp().clamp(max=cap)


def clipped_losses(
    logprobs_N: torch.Tensor,
    start_logprobs_N: torch.Tensor,
    advantages_N: torch.Tensor,
    *,
    low: float,
    high: float,
) -> torch.Tensor:
    """Return -min(rho A, clip(rho, 1 - low, 1 + high) A) per token."""
    ratios_N = (logprobs_N - start_logprobs_N).exp()
    clipped_N = ratios_N.clamp(1.0 - low, 1.0 + high)
    return -torch.minimum(ratios_N * advantages_N, clipped_N * advantages_N)


def is_clipped(
    logprobs_N: torch.Tensor,
    start_logprobs_N: torch.Tensor,
    advantages_N: torch.Tensor,
    *,
    low: float,
    high: float,
) -> torch.Tensor:
    """Return where the clip takes the gradient away."""
    ratios_N = (logprobs_N - start_logprobs_N).exp()
    return ((advantages_N > 0) & (ratios_N > 1.0 + high)) | (
        (advantages_N < 0) & (ratios_N < 1.0 - low)
    )


def kl_losses(logprobs_N: torch.Tensor, reference_logprobs_N: torch.Tensor) -> torch.Tensor:
    """Return the k3 estimate of KL(policy || reference) per token; never negative."""
    differences_N = reference_logprobs_N - logprobs_N
    return differences_N.exp() - differences_N - 1.0


def imitation_losses(logprobs_N: torch.Tensor, weights_N: torch.Tensor) -> torch.Tensor:
    """Return the weighted negative log-likelihood of references per token."""
    return -weights_N * logprobs_N

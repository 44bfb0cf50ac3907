"""The k3 estimator of a divergence (Schulman, "Approximating KL Divergence", 2020).

    KL(policy || reference) ~ exp(d) - d - 1   with d = log reference - log policy

It is unbiased for tokens that the policy sampled, and never negative.
"""

import torch


def losses(logprobs_N: torch.Tensor, reference_N: torch.Tensor) -> torch.Tensor:
    """Return the estimate for every token."""
    differences_N = reference_N - logprobs_N
    return differences_N.exp() - differences_N - 1.0

"""The k3 estimator of a divergence (Schulman, "Approximating KL Divergence", 2020).

    KL(policy || reference) ~ exp(d) - d - 1   with d = log reference - log policy

Of tokens that the policy sampled, its mean is this divergence, and it is never negative.

As a loss it does not follow that divergence: its gradient holds the sampled tokens fixed, and is
on average the gradient of KL(reference || policy), the other direction. (TRL multiplies the
estimate by the ratio of the policy to the sampler; the gradient of that is on average the one of
KL(policy || reference).) Both are 0 at the reference and agree near it. Far from it, this one pulls
harder at tokens that the policy has made rarer than in the reference, and less at those that it has
made more frequent.
"""

import torch


def losses(logprobs_N: torch.Tensor, reference_N: torch.Tensor) -> torch.Tensor:
    """Return the estimate for every token."""
    differences_N = reference_N - logprobs_N
    return differences_N.exp() - differences_N - 1.0

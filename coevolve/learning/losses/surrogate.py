"""The clipped surrogate of a policy gradient, parametrized by the differences between methods.

Letters: G rollouts of one group, N tokens that the policy wrote (in any number of rollouts,
concatenated), R rollouts.

With rho the ratio between the policy and the policy at the start of the step, and A the advantage
of the token's rollout:

    loss = -min(rho A, clip(rho, 1 - low, 1 + high) A)                 PPO, arXiv 1707.06347

All probabilities are those of the tempered distribution used for sampling. If a step makes a single
update, the policy at its start is the current policy: rho = 1, clipping has no effect, and the
gradient is that of -A log pi. `importance` corrects the difference between the sampler's
probabilities and those at the start (decoupled PPO, AReaL, arXiv 2505.24298).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

NO_SPREAD = 1e-8
"""Standard deviations below this count as rounding errors of equal rewards."""


@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """Parameters of one policy gradient method."""

    scale_rewards: bool
    """Whether advantages are divided by the standard deviation of the group's rewards."""

    ratio: Literal["token", "sequence"]
    """Whether rho is computed per token or per rollout."""

    clip_low: float
    clip_high: float

    def advantages(self, rewards_G: Sequence[float]) -> list[float]:
        """Return each rollout's advantage over its group; all 0 if the rewards are equal.

        The standard deviation uses the denominator G.
        """
        mean = math.fsum(rewards_G) / len(rewards_G)
        std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards_G) / len(rewards_G))
        if std < NO_SPREAD:
            return [0.0] * len(rewards_G)
        return [(reward - mean) / (std if self.scale_rewards else 1.0) for reward in rewards_G]

    def losses(
        self,
        logprobs_N: "torch.Tensor",
        start_N: "torch.Tensor",
        advantages_N: "torch.Tensor",
        lengths_R: Sequence[int],
    ) -> "torch.Tensor":
        """Return the loss of every token; ``lengths_R`` holds the rollouts' written tokens."""
        ratios_N = self._ratios(logprobs_N, start_N, lengths_R)
        clipped_N = ratios_N.clamp(1.0 - self.clip_low, 1.0 + self.clip_high)
        return -(ratios_N * advantages_N).minimum(clipped_N * advantages_N)

    def is_clipped(
        self,
        logprobs_N: "torch.Tensor",
        start_N: "torch.Tensor",
        advantages_N: "torch.Tensor",
        lengths_R: Sequence[int],
    ) -> "torch.Tensor":
        """Return the tokens at which clipping removes the gradient."""
        ratios_N = self._ratios(logprobs_N.detach(), start_N, lengths_R)
        return ((advantages_N > 0) & (ratios_N > 1.0 + self.clip_high)) | (
            (advantages_N < 0) & (ratios_N < 1.0 - self.clip_low)
        )

    def _ratios(
        self, logprobs_N: "torch.Tensor", start_N: "torch.Tensor", lengths_R: Sequence[int]
    ) -> "torch.Tensor":
        differences_N = logprobs_N - start_N
        if self.ratio == "sequence":
            parts = split(differences_N, lengths_R)
            differences_N = spread([part.mean() for part in parts], lengths_R)
        return differences_N.exp()


def split(values_N: "torch.Tensor", lengths_R: Sequence[int]) -> "Sequence[torch.Tensor]":
    import torch

    return torch.split(values_N, list(lengths_R))


def spread(values_R: "Sequence[torch.Tensor]", lengths_R: Sequence[int]) -> "torch.Tensor":
    """Repeat the value of each rollout for each token that it wrote."""
    import torch

    parts = [
        value.expand(length) for value, length in zip(values_R, lengths_R, strict=True) if length
    ]
    return torch.cat(parts) if parts else torch.zeros(0)

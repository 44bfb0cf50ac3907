"""Truncated importance sampling between the engine that samples and the trainer.

    token:     w_t = min(pi_start(o_t) / pi_sampler(o_t), cap)
    sequence:  w   = min(prod_t pi_start(o_t) / pi_sampler(o_t), cap)   for all tokens of a rollout

The engine's arithmetic and its older weights make its probabilities differ from the trainer's, even
if both have the same version. A loss that ignores this drifts ("Your efficient RL framework
secretly brings you off-policy RL training", Yao et al. 2025; verl `rollout_is`, TRL
`vllm_importance_sampling_mode` token_truncate and sequence_truncate). Token-level weights are
nearly 1 and biased. Sequence-level weights are unbiased up to the cap, and their variance grows
with the length.
"""

from collections.abc import Sequence
from typing import assert_never

import torch

from coevolve.learning.losses.surrogate import spread
from protocols.objectives import ImportanceLevel


def ratios(
    start_N: torch.Tensor,
    sampler_N: torch.Tensor,
    lengths_R: Sequence[int],
    *,
    level: ImportanceLevel,
) -> torch.Tensor:
    """Return pi_start / pi_sampler of each token, or of its rollout, before any truncation."""
    differences_N = start_N.detach() - sampler_N
    match level:
        case "token":
            return differences_N.exp()
        case "sequence":
            parts = torch.split(differences_N, list(lengths_R))
            return spread([part.sum() for part in parts], lengths_R).exp()
        case "off":
            return torch.ones_like(differences_N)
        case _:
            assert_never(level)

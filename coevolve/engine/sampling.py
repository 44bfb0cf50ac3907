"""Samples the next token of many rows at once.

Letters: R rows, V vocabulary.

A row's token is the inverse of its cumulative distribution at the row's own uniform number. Other
rows therefore affect it only through the rounding of their common forward.
"""

import torch


def sample(
    logits_R_V: torch.Tensor, temperatures_R: torch.Tensor, uniforms_R: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (tokens_R, logprobs_R); temperature 0 takes the most probable token.

    ``uniforms_R`` is float64 in [0, 1). Logprobs are natural and float32, under the distribution
    after temperature, or the plain one if the temperature is 0.
    """
    greedy_R = temperatures_R == 0
    divisors_R = temperatures_R.masked_fill(greedy_R, 1.0)
    logprobs_R_V = torch.log_softmax(logits_R_V.float() / divisors_R[:, None], dim=-1)
    tokens_R = logprobs_R_V.argmax(-1) if bool(greedy_R.any()) else None
    if not bool(greedy_R.all()):
        # float64, because a float32 sum over a large vocabulary would lose the tail.
        mass_R_V = logprobs_R_V.exp().cumsum(-1, dtype=torch.float64)
        reached_R_1 = (uniforms_R * mass_R_V[:, -1])[:, None]
        drawn_R = torch.searchsorted(mass_R_V, reached_R_1, right=True)[:, 0]
        drawn_R.clamp_(max=logits_R_V.shape[-1] - 1)
        tokens_R = drawn_R if tokens_R is None else torch.where(greedy_R, tokens_R, drawn_R)
    assert tokens_R is not None
    return tokens_R, logprobs_R_V.gather(1, tokens_R[:, None])[:, 0]

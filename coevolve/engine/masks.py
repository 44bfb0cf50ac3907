"""Attention masks for the rows of one forward, by kind of layer.

Letters: R rows, Q tokens per row, T positions.

A layer attends to all tokens so far, or to the last W of them (``sliding_window``). A model whose
layers are all of one kind takes one mask. A model with both kinds takes a mask for each, by the
names of its ``layer_types``.
"""

from typing import Any

import torch

FULL, SLIDING = "full_attention", "sliding_attention"

BEYOND = 8
"""Tokens by which a prompt of a start-up check exceeds the window."""


class Masks:
    """Makes the masks of one model."""

    def __init__(self, config: Any, dtype: torch.dtype, positions: int) -> None:
        """Make masks for a model with this ``config.json``, and up to ``positions`` tokens."""
        self._windows = layer_windows(config)
        self._dtype = dtype
        self._arange_T = torch.arange(positions)

    def of(
        self, positions_R_Q: torch.Tensor, longest: int
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        """Return what a model takes as ``attention_mask``.

        Masks are (R, 1, Q, T) with T = ``longest``: 0 for visible positions, otherwise -inf.
        """
        masks = {
            kind: self._mask(positions_R_Q[..., None], longest, window)
            for kind, window in self._windows.items()
        }
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _mask(self, at_R_Q_1: torch.Tensor, longest: int, window: int | None) -> torch.Tensor:
        seen_T = self._arange_T[:longest]
        hidden_R_Q_T = seen_T > at_R_Q_1
        if window is not None:
            hidden_R_Q_T |= seen_T <= at_R_Q_1 - window
        hidden_R_1_Q_T = hidden_R_Q_T[:, None]
        bias_R_1_Q_T = torch.zeros(hidden_R_1_Q_T.shape, dtype=self._dtype)
        return bias_R_1_Q_T.masked_fill_(hidden_R_1_Q_T, float("-inf"))


def layer_windows(config: Any) -> dict[str, int | None]:
    """Return the window of each kind of layer, in tokens; None for a kind that sees all tokens.

    Raises ValueError for kinds of layers other than full and sliding attention.
    """
    kinds = _kinds(config)
    if not kinds <= {FULL, SLIDING}:
        raise ValueError(f"layers of {', '.join(sorted(kinds))}")
    return {kind: config.sliding_window if kind == SLIDING else None for kind in sorted(kinds)}


def length_beyond_window(config: Any, positions: int) -> int | None:
    """Return the length of a prompt whose beginning no sliding layer sees.

    None if no layer slides, or if ``positions`` tokens are too few for such a prompt.
    """
    if SLIDING not in _kinds(config):
        return None
    length = config.sliding_window + BEYOND
    return length if length <= positions else None


def _kinds(config: Any) -> set[str]:
    every = FULL if getattr(config, "sliding_window", None) is None else SLIDING
    return set(getattr(config, "layer_types", None) or [every])

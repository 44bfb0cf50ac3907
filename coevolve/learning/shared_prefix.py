"""Sequences of a micro-batch that begin alike: their common prefix is computed once.

Conversations of one environment begin with the same tools and the same words of the system, and
those of a group with the same request. The model computes the keys and values of this prefix once,
with their gradient, and every sequence continues from them. Values and gradients are those of
sequences that are computed alone, but for rounding.

Letters: B rows, T positions (padded on the right).
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

import torch
from peft import PeftModel
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer

from coevolve.learning.rows import Conversation

MIN_SAVED = 0.2
"""Minimum share of a micro-batch's positions that a common prefix has to save; a second pass of
the model costs more than fewer."""


def can_share(model: PreTrainedModel | PeftModel) -> bool:
    """Return whether all layers of the model keep the keys and values of every position."""
    plain = cast("Any", model.get_base_model() if isinstance(model, PeftModel) else model)
    if "past_key_values" not in signature(plain.forward).parameters:
        return False
    try:
        layers = DynamicCache(config=cast("Any", model.config)).layers
    except (AttributeError, KeyError, ValueError):
        return False
    return all(type(layer) is DynamicLayer for layer in layers)


def saved(prefix: int, sequences: int, length: int) -> int:
    """Return how many positions of ``sequences`` of ``length`` need not be computed."""
    found = prefix * (sequences - 1)
    return found if found >= MIN_SAVED * sequences * length else 0


@dataclass(frozen=True)
class Prefix:
    """What sequences begin with, up to the first token that predicts a written one."""

    ids: Sequence[int] | None = None
    """The tokens of one of the sequences; None without sequences."""

    length: int = 0

    def joined(self, sides: Sequence[Conversation]) -> "Prefix":
        """Return the prefix of these sequences besides."""
        ids = sides[0].token_ids if self.ids is None else self.ids
        length = len(ids) if self.ids is None else self.length
        for side in sides:
            free = next(
                (at - 1 for at, mark in enumerate(side.mask) if mark and at), len(side.mask)
            )
            most = min(length, free)
            pairs = zip(ids[:most], side.token_ids[:most], strict=True)
            length = next((at for at, (one, other) in enumerate(pairs) if one != other), most)
        return Prefix(ids, length)


def prefix_length(inputs_B_T: torch.Tensor, chosen_B_T: torch.Tensor) -> int:
    """Return the number of positions that all rows have in common, and that predict nothing."""
    alike_T = (inputs_B_T == inputs_B_T[0]).all(0) & ~chosen_B_T.any(0)
    return int(alike_T.long().cumprod(0).sum())


def prefix_cache(
    model: PreTrainedModel | PeftModel, ids_1_T: torch.Tensor, rows: int
) -> DynamicCache:
    """Return the keys and values of a prefix, for ``rows`` rows that continue it."""
    cache = DynamicCache(config=cast("Any", model.config))
    model(input_ids=ids_1_T, past_key_values=cache, use_cache=True, logits_to_keep=1)
    for layer in cast("Any", cache.layers):
        layer.keys = layer.keys.expand(rows, -1, -1, -1)
        layer.values = layer.values.expand(rows, -1, -1, -1)
    return cache

"""Sequences of a micro-batch that begin alike: their common prefix is computed once.

Conversations of one environment begin with the same tools and the same words of the system, and
those of a group with the same request. The model computes the keys and values of this prefix once,
with their gradient, and every sequence continues from them. Values and gradients are those of
sequences that are computed alone, but for rounding.

Letters: B rows, T positions (padded on the right).
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from peft import PeftModel
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer

from coevolve.models.load import cache_argument

MIN_SAVED = 0.2
"""Minimum share of a micro-batch's positions that a common prefix has to save; a second pass of
the model costs more than fewer."""


def can_share(model: PreTrainedModel | PeftModel) -> bool:
    """Return whether all layers of the model keep the keys and values of every position."""
    if not cache_argument(plain_model(model)):
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

    def joined(self, sides: Iterable[tuple[Sequence[int], Sequence[int]]]) -> "Prefix":
        """Return the prefix of these sequences besides, given by their tokens and masks."""
        first, length = self.ids, self.length
        for ids, mask in sides:
            first, length = (ids, len(ids)) if first is None else (first, length)
            free = next((at for at, mark in enumerate(mask) if mark and at), len(mask)) - 1
            most = min(length, free)
            pairs = zip(first[:most], ids[:most], strict=True)
            length = next((at for at, (one, other) in enumerate(pairs) if one != other), most)
        return Prefix(first, length)


def prefix_cache(
    model: PreTrainedModel | PeftModel, ids_1_T: torch.Tensor, rows: int
) -> DynamicCache:
    """Return the keys and values of a prefix, for ``rows`` rows that continue it."""
    cache = DynamicCache(config=cast("Any", model.config))
    cast("Any", model)(input_ids=ids_1_T, logits_to_keep=1, **cached(model, cache))
    for layer in cast("Any", cache.layers):
        layer.keys = layer.keys.expand(rows, -1, -1, -1)
        layer.values = layer.values.expand(rows, -1, -1, -1)
    return cache


def cached(model: PreTrainedModel | PeftModel, cache: DynamicCache) -> dict[str, Any]:
    """Return the arguments with which a model reads and fills a cache."""
    return {cache_argument(plain_model(model)): cache, "use_cache": True}


def plain_model(model: PreTrainedModel | PeftModel) -> Any:
    """Return the model to which an adapter was added, or the model itself."""
    return model.get_base_model() if isinstance(model, PeftModel) else model

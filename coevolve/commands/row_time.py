"""Measures how long a learner takes for one conversation on this machine, on the CPU."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from coevolve.models.load import read_model

PASSES = 2
"""The first one also prepares the machine's arithmetic."""


class RowSeconds(NamedTuple):
    """Seconds of a forward and a backward pass over a conversation, by ``policy.precision``."""

    fp32: float
    bf16: float


def row_seconds(folder: Path, token_ids: Sequence[int], threads: int) -> RowSeconds:
    """Measure the passes in both precisions.

    They go through every layer to the embeddings, as for an adapter.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = cast("Any", read_model(folder, torch.float32))
        model.requires_grad_(requires_grad=False)
        ids_1_T = torch.tensor([list(token_ids)])
        fp32 = min(_pass_seconds(model, ids_1_T) for _ in range(PASSES))
        model.to(torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            bf16 = min(_pass_seconds(model, ids_1_T) for _ in range(PASSES))
        return RowSeconds(fp32, bf16)
    finally:
        torch.set_num_threads(before)


def _pass_seconds(model: Any, ids_1_T: torch.Tensor) -> float:
    embedded = model.get_input_embeddings()(ids_1_T).requires_grad_()
    began = time.monotonic()
    logits = model(inputs_embeds=embedded, use_cache=False).logits
    torch.nn.functional.cross_entropy(logits[0, :-1].float(), ids_1_T[0, 1:]).backward()
    return time.monotonic() - began

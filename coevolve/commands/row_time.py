"""Measures how long a learner takes for one conversation on this machine, on the CPU."""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from coevolve.learning.scoring import score
from coevolve.learning.shared_prefix import can_share
from coevolve.models.load import read_model

PASSES = 2
"""The first one also prepares the machine's arithmetic."""


class RowSeconds(NamedTuple):
    """Seconds of a forward and a backward pass for a conversation, by ``policy.precision``."""

    fp32: float
    bf16: float


def row_seconds(
    folder: Path, rows: Sequence[Sequence[int]], threads: int, *, adapter: bool
) -> RowSeconds:
    """Measure the passes for ``rows``, conversations of a micro-batch, in both precisions.

    All weights learn, or with ``adapter`` what lies below them: the embeddings.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = cast("Any", read_model(folder, torch.float32))
        model.requires_grad_(requires_grad=not adapter)
        model.get_input_embeddings().requires_grad_(requires_grad=True)
        fp32 = min(_pass_seconds(model, rows) for _ in range(PASSES))
        if adapter:
            model.to(torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            bf16 = min(_pass_seconds(model, rows) for _ in range(PASSES))
        return RowSeconds(fp32 / len(rows), bf16 / len(rows))
    finally:
        torch.set_num_threads(before)


def _pass_seconds(model: Any, rows: Sequence[Sequence[int]]) -> float:
    tensors = [torch.tensor(row) for row in rows]
    ids_B_T = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
    ends_B = torch.tensor([len(row) for row in rows])[:, None]
    written_B_T = torch.arange(ids_B_T.shape[1])[None] == ends_B - 1
    began = time.monotonic()
    logprobs_N, _ = score(model, ids_B_T, written_B_T, temperature=1.0, shares=can_share(model))
    logprobs_N.sum().backward()
    model.zero_grad()
    return time.monotonic() - began

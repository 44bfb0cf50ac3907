"""Measures how long a learner takes for one conversation on this machine, on the CPU."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from coevolve.models.load import read_model


def row_seconds(folder: Path, token_ids: Sequence[int], threads: int) -> float:
    """Return the seconds of a forward and a backward pass over a conversation.

    The pass goes through every layer to the embeddings, as for an adapter.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = cast("Any", read_model(folder, torch.float32))
        model.requires_grad_(requires_grad=False)
        ids_1_T = torch.tensor([list(token_ids)])
        embedded = model.get_input_embeddings()(ids_1_T).requires_grad_()
        began = time.monotonic()
        logits = model(inputs_embeds=embedded, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits[0, :-1], ids_1_T[0, 1:]).backward()
        return time.monotonic() - began
    finally:
        torch.set_num_threads(before)

"""The shipped policy with wider layers that do not change its output.

The added part of a layer's inner dimension has random input weights and zero output weights. So an
engine has as much work as with any model of that size, and every conversation stays the same.
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import shutil
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from coevolve.models.load import read_model
from coevolve.models.model_folder import TINY_FOLDER

SPREAD = 0.02
"""Standard deviation of the added input weights."""


def wider_policy(folder: Path, width: int) -> int:
    """Write the policy with layers of ``width`` to the new ``folder``; return its parameter count.

    Raises ValueError if ``width`` is less than the policy's own.
    """
    policy = cast("Any", read_model(TINY_FOLDER))
    config = cast("Any", AutoConfig.from_pretrained(TINY_FOLDER, local_files_only=True))
    own = config.intermediate_size
    if width < own:
        raise ValueError(f"the policy's layers can only be widened, from {own} on, found {width}")
    config.intermediate_size = width
    wider = cast("Any", AutoModelForCausalLM).from_config(config)
    weights = policy.state_dict()
    generator = torch.Generator().manual_seed(width)
    for name, weight in wider.state_dict().items():
        weights[name] = _widened(weights[name], weight.shape, generator)
    wider.load_state_dict(weights)
    shutil.copytree(TINY_FOLDER, folder)
    wider.save_pretrained(folder)
    return sum(parameter.numel() for parameter in wider.parameters())


def _widened(weight: torch.Tensor, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Return ``weight`` in ``shape``: added input rows are random, added output columns zero."""
    if weight.shape == shape:
        return weight
    rows, columns = (wide - narrow for wide, narrow in zip(shape, weight.shape, strict=True))
    added = SPREAD * torch.randn(rows, weight.shape[1], generator=generator)
    return nn.functional.pad(torch.cat([weight, added]), (0, columns))

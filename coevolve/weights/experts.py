"""Experts of a layer, which files hold one by one and models as one tensor.

Letters: E experts, O outputs, I inputs.
"""

from collections.abc import Mapping

import torch

PARTS = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
"""What transformers' one tensor holds of each expert, by rows."""


def stacked(
    tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return ``tensors`` with experts put together where ``parameters`` has them so."""
    found = dict(tensors)
    for name in parameters.keys() - tensors.keys():
        layer, _, kind = name.rpartition(".")
        if kind not in PARTS:
            continue
        parts = [
            [f"{layer}.{expert}.{part}.weight" for part in PARTS[kind]]
            for expert in range(len(parameters[name]))
        ]
        if all(each in found for expert in parts for each in expert):
            found[name] = torch.stack(
                [torch.cat([found.pop(each) for each in expert]) for expert in parts]
            )
    return found

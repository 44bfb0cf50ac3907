"""The processes (ranks) that take an optimizer step together, from the view of one of them.

Every rank holds a part of every weight, of its gradient and of its optimizer state (FSDP2:
`torch.distributed.fsdp.fully_shard`, one unit for each layer and one for the rest). It receives the
whole batch and computes some of its rows. Sums over ranks have the same terms as in one process, in
another order: losses agree to rounding, weights are not equal in every bit. With one rank nothing
is split, and every function here returns its argument.

A model is sharded before it has memory, so no device ever holds more of it than its shards, one
layer, and one tensor.

All ranks must call `fill`, `whole`, `gathered` and the model itself the same number of times and in
the same order.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """One of ``count`` processes; by default the only one."""

    rank: int = 0
    count: int = 1
    mesh: DeviceMesh | None = None
    """The mesh over which weights are sharded; None with one rank."""

    @property
    def writes(self) -> bool:
        """Whether this rank writes files that are not sharded."""
        return self.rank == 0

    def shard(self, outline: torch.nn.Module, computes_in: torch.dtype | None = None) -> None:
        """Give a model without weights memory for this rank's shards; the shards are not set yet.

        Buffers keep their values. Shards keep their precision; with ``computes_in``, ranks send
        each other weights in that precision and compute in it, and sum gradients in float32.
        """
        assert self.mesh is not None, "one rank has nothing to shard"
        summed_in = torch.float32 if computes_in else None
        precision = MixedPrecisionPolicy(param_dtype=computes_in, reduce_dtype=summed_in)
        for layer in _layers(outline):
            fully_shard(layer, mesh=self.mesh, mp_policy=precision)
        fully_shard(outline, mesh=self.mesh, mp_policy=precision)
        for module in outline.modules():
            if isinstance(module, FSDPModule):
                # Gradients are summed, not averaged: the losses already have their divisors.
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(enable=True)
        computed = {name: buffer.clone() for name, buffer in outline.named_buffers()}
        outline.to_empty(device=self.mesh.device_type)
        for name, buffer in outline.named_buffers():
            buffer.copy_(computed[name])

    def fill(self, model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
        """Set the shards of ``model`` on every rank from ``weights``, the state dict of rank 0.

        The weights of the other ranks are not used. Each tensor is sent on its own.
        """
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, dict(weights), options=options)

    def gathered(self, value: T) -> list[T]:
        """Return the values of all ranks, in rank order."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        distributed.all_gather_object(found, value)
        return cast("list[T]", found)


ALONE = Ranks()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return the full tensor of a sharded tensor; return any other tensor unchanged."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def all_whole(tensors: Mapping[str, torch.Tensor], ranks: Ranks) -> dict[str, torch.Tensor]:
    """Return the full tensors, on the CPU of the rank that writes; elsewhere nothing.

    A device holds one of them at a time.
    """
    found: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        if ranks.writes:
            found[name] = full.cpu()
    return found


def _layers(model: torch.nn.Module) -> Iterable[torch.nn.Module]:
    """Return the modules that transformers lists as the model's layers, in order."""
    names = set(cast("Any", model)._no_split_modules)
    return [module for module in model.modules() if type(module).__name__ in names]

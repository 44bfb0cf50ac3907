"""The processes (ranks) that take an optimizer step together, from the view of one of them.

Every rank holds a part of every weight, of its gradient and of its optimizer state (FSDP2:
`torch.distributed.fsdp.fully_shard`, one unit for each layer and one for the rest). It receives the
whole batch and computes some of its rows. Sums over ranks have the same terms as in one process, in
another order: losses agree to rounding, weights are not equal in every bit. With one rank nothing
is split, and every function here returns its argument.

All ranks must call `whole`, `gathered` and the model itself the same number of times and in the
same order.

Not covered: several machines, and reading a checkpoint in parts (each rank reads all of it).
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

T = TypeVar("T")

OptimizerState = dict[str, Any]
"""What an optimizer's ``state_dict`` returns."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """One of ``count`` processes; by default the only one."""

    rank: int = 0
    count: int = 1
    mesh: DeviceMesh | None = None
    """The mesh over which weights are sharded; None with one rank."""

    @property
    def writes(self) -> bool:
        """Whether this rank writes files."""
        return self.rank == 0

    def shard(self, model: torch.nn.Module) -> None:
        """Replace the model's weights by this rank's shards."""
        if self.mesh is None:
            return
        for layer in _layers(model):
            fully_shard(layer, mesh=self.mesh)
        fully_shard(model, mesh=self.mesh)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                # Gradients are summed, not averaged: the losses already have their divisors.
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(enable=True)

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


def whole_weights(model: torch.nn.Module, ranks: Ranks) -> dict[str, torch.Tensor]:
    """Return the model's full state dict on the rank that writes, and an empty one elsewhere.

    Weights with two names stay one tensor.
    """
    found: dict[int, torch.Tensor] = {}
    state: dict[str, torch.Tensor] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) not in found:
            tensor = whole(value.detach())
            found[id(value)] = tensor if ranks.writes else tensor[:0]
        state[name] = found[id(value)]
    return state if ranks.writes else {}


def whole_optimizer(state: Mapping[str, Any]) -> OptimizerState:
    """Return ``state`` with full tensors."""
    return dict(state) | {
        "state": {
            number: {
                name: whole(value) if isinstance(value, torch.Tensor) else value
                for name, value in each.items()
            }
            for number, each in state["state"].items()
        }
    }


def split_optimizer(
    state: Mapping[str, Any], parameters: Sequence[torch.nn.Parameter]
) -> OptimizerState:
    """Return ``state`` with its tensors sharded like ``parameters``."""
    parts: dict[int, dict[str, Any]] = {
        number: {
            name: like(value, parameters[int(number)]) if isinstance(value, torch.Tensor) else value
            for name, value in each.items()
        }
        for number, each in state["state"].items()
    }
    return dict(state) | {"state": parts}


def like(value: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Return ``value`` sharded like ``own`` if ``own`` is a shard of a tensor of its shape."""
    if not (isinstance(own, DTensor) and value.shape == own.shape):
        return value
    return distribute_tensor(value.to(own.device), own.device_mesh, own.placements)


def _layers(model: torch.nn.Module) -> Iterable[torch.nn.Module]:
    """Return the modules that transformers lists as the model's layers, in order."""
    names = set(cast("Any", model)._no_split_modules)
    return [module for module in model.modules() if type(module).__name__ in names]

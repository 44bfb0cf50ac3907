"""Reads the sampling tensors of a vLLM engine, by the names of the published files.

vLLM has its own layout: it combines weights (queries, keys and values; gate and up), pads them to
round sizes, and on a CPU packs them for the processor, where they cannot be read. The module reads
a packed layer through its own product: the product with an identity matrix is exactly its weight.
Packed experts are put back in order; packing numbers that encode their position gives the order.

Only unquantized layers are supported; the engine refuses others at start-up.

Letters: E experts, O outputs, I inputs; R rows, C columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from vllm import _custom_ops
from vllm.lora.layers.base_linear import BaseLinearLayerWithLoRA
from vllm.model_executor.layers.vocab_parallel_embedding import (
    ParallelLMHead,
    VocabParallelEmbedding,
)

from coevolve.engine.vllm.fresh import WRAPPED
from coevolve.weights.models import Model
from coevolve.weights.row_sums import Sums, partial_sums, row_sums
from protocols.errors import GeneratorError

COLUMNS = 512
"""Number of columns of an identity matrix processed at a time."""

DIGIT = 256
"""Integers below this are exact in every precision."""

_EXPERTS = {"gate_up_proj": "w13_weight", "down_proj": "w2_weight"}
_UNQUANTIZED = (
    "UnquantizedLinearMethod",
    "UnquantizedEmbeddingMethod",
    "UnquantizedFusedMoEMethod",
)


@dataclass(frozen=True)
class Place:
    """Location of a published parameter in vLLM."""

    module: str
    """Name of the layer, without LoRA's suffix."""

    kind: str
    """Name of the layer's tensor: ``weight``, ``bias``."""

    part: int | None
    """Index of the part, if the layer stacks several parameters; None for the whole tensor."""


class Tensors:
    """The tensors of one engine.

    Only its thread may use them, because products are not thread-safe.
    """

    def __init__(self, model: torch.nn.Module, files: Model, dtype: torch.dtype) -> None:
        """Find the place of every parameter of ``files``.

        Raises GeneratorError if the place of a parameter is unknown.
        """
        self._model = model
        self._files = files
        self._dtype = dtype
        found = cast("Iterator[tuple[str, Any]]", model.named_modules(remove_duplicate=False))
        self._modules: dict[str, Any] = {name.replace(WRAPPED, ""): each for name, each in found}
        self._packed = cast("dict[str, list[str]]", getattr(model, "packed_modules_mapping", {}))
        names = (*files.parameters, *(each for each in files.aliases if self._has(each)))
        self._places = {name: self._place(name) for name in names}
        self._published = self._published_names()

    @torch.inference_mode()
    def row_sums(self) -> Iterator[tuple[str, bytes]]:
        """Yield the row sums of all sampling tensors except adapters, tensor by tensor."""
        read: dict[tuple[str, str], list[Sums]] = {}
        for name, place in self._places.items():
            module = self._modules[place.module]
            if place.kind in _EXPERTS:
                yield name, self._experts(name, module).tobytes()
                continue
            key = (place.module, place.kind)
            if key not in read:
                read[key] = self._parts(name, module, place.kind)
            parts = read[key]
            found = parts[place.part] if place.part is not None else np.concatenate(parts)
            yield name, found.tobytes()
        yield from self.tables_of(self._model)

    @torch.inference_mode()
    def tables_of(self, model: torch.nn.Module) -> Iterator[tuple[str, bytes]]:
        """Yield the row sums of tensors that are in no file, of this model or one made like it."""
        for name, tensor in _all_tensors(model):
            plain = name.replace(WRAPPED, "")
            filled = tensor.numel() and not tensor.is_meta
            if filled and plain not in self._published and "lora_" not in plain:
                yield plain, row_sums(tensor).tobytes()

    @torch.inference_mode()
    def adapter_sums(self, layers: Mapping[str, Any], slot: int) -> Iterator[tuple[str, bytes]]:
        """Yield the row sums of the adapter in ``slot`` of LoRA's ``layers``, by name."""
        for name, place in self._places.items():
            layer = layers.get(place.module)
            if place.kind != "weight" or not isinstance(layer, BaseLinearLayerWithLoRA):
                continue
            module = name.removesuffix(".weight")
            for letter, stacked in (("A", layer.lora_a_stacked), ("B", layer.lora_b_stacked)):
                parts = [row_sums(each[slot, 0]) for each in stacked]
                found = parts[place.part] if place.part is not None else _join_parts(letter, parts)
                yield f"base_model.model.{module}.lora_{letter}.weight", found.tobytes()

    def _has(self, name: str) -> bool:
        return name.rpartition(".")[0] in self._modules

    def _place(self, name: str) -> Place:
        mapper = cast("Any", getattr(self._model, "hf_to_vllm_mapper", None))
        mapped: str = (mapper.map_name(name) if mapper else name) or name
        owner, _, kind = mapped.rpartition(".")
        place = Place(owner, kind, None)
        leaf = name.split(".")[-2]
        for packed, parts in self._packed.items():
            # Some models already map names to the combined layer.
            whole = f"{owner.rpartition('.')[0]}.{packed}"
            if leaf in parts and len(parts) > 1 and whole in self._modules:
                place = Place(whole, kind, parts.index(leaf))
        module = self._modules.get(place.module)
        holder = _expert_layer(module) if kind in _EXPERTS else module
        method: object = getattr(holder, "quant_method", None)
        known = method is None or type(method).__name__ in _UNQUANTIZED
        if not known or not hasattr(holder, _EXPERTS.get(kind, kind)):
            raise GeneratorError(
                f"vLLM stores the parameter {name} of the model in an unknown way, so the served "
                "weights could not be compared with the published ones; choose rollout.engine.kind "
                "transformers"
            )
        return place

    def _parts(self, name: str, module: torch.nn.Module, kind: str) -> list[Sums]:
        """Return the row sums of a layer's parts, each with its padding."""
        tensor = cast("torch.Tensor", getattr(module, kind))
        is_table = isinstance(module, VocabParallelEmbedding) and not (
            isinstance(module, ParallelLMHead) or name in self._files.aliases
        )
        sizes = cast("list[int]", getattr(module, "output_partition_sizes", []))
        if kind == "weight" and hasattr(module, "cpu_linear") and not is_table:
            sums = self._product_sums(name, module)
        elif tensor.dim() == 1:
            # A bias is one row, and so is each of its parts.
            parts = torch.split(tensor, sizes) if sum(sizes) == len(tensor) else [tensor]
            return [row_sums(part, self._dtype) for part in parts]
        else:
            sums = row_sums(tensor, self._dtype)
        return np.split(sums, np.cumsum(sizes)[:-1]) if sum(sizes) == len(sums) else [sums]

    def _product_sums(self, name: str, module: torch.nn.Module) -> Sums:
        """Return the row sums of a layer's weight, read through its product."""
        shape = self._files.parameters[self._files.aliases.get(name, name)].shape
        method = cast("Any", module).quant_method
        total = torch.zeros(0, dtype=torch.int64)
        for first in range(0, shape[1], COLUMNS):
            count = min(COLUMNS, shape[1] - first)
            unit_C_I = torch.zeros(count, shape[1], dtype=self._dtype)
            unit_C_I[:, first:].fill_diagonal_(1.0)
            weight_R_C = method.apply(module, unit_C_I, None).T
            part = partial_sums(weight_R_C.to(self._dtype), first)
            total = part if not len(total) else total + part
        return total.numpy()

    def _experts(self, name: str, module: torch.nn.Module) -> Sums:
        """Return the row sums of one of the two tensors of a layer's experts, without padding."""
        kind = name.rpartition(".")[2]
        layer = _expert_layer(module)
        tensor = cast("torch.Tensor", getattr(layer, _EXPERTS[kind]))
        experts, outputs, _ = self._files.parameters[name].shape
        isa = _packed_for(layer)
        plain_E_O_I = _unpack_experts(tensor, isa) if isa else tensor
        sums_E_O = row_sums(plain_E_O_I, self._dtype).reshape(experts, -1)
        if kind == "gate_up_proj":
            # Each half is padded separately.
            halves = sums_E_O.reshape(experts, 2, -1)
            if halves[:, :, outputs // 2 :].any():
                return sums_E_O.reshape(-1)
            sums_E_O = halves[:, :, : outputs // 2]
        return np.ascontiguousarray(sums_E_O).reshape(-1)

    def _published_names(self) -> set[str]:
        """Return vLLM's names of the tensors that are in files."""
        holders = ((self._modules[each.module], each.kind) for each in self._places.values())
        tensors = {
            id(
                getattr(
                    _expert_layer(module) if kind in _EXPERTS else module, _EXPERTS.get(kind, kind)
                )
            )
            for module, kind in holders
        }
        named = _all_tensors(self._model)
        return {name.replace(WRAPPED, "") for name, each in named if id(each) in tensors}


def _join_parts(letter: str, parts: Sequence[Sums]) -> Sums:
    """Return the sums of a combined layer's matrix; its parts share one A."""
    return parts[0] if letter == "A" else np.concatenate(parts)


def _all_tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _expert_layer(module: Any) -> Any:
    """Return the layer with the experts' weights; newer versions keep it inside a runner."""
    return getattr(module, "routed_experts", module)


def _packed_for(layer: Any) -> str:
    """Return the instruction set for which a layer's experts are packed; empty if unpacked."""
    kernel = getattr(layer.quant_method, "moe_kernel", None)
    experts = getattr(kernel, "fused_experts", None)
    return "" if getattr(experts, "_use_zentorch", True) else cast("Any", experts).isa


def _unpack_experts(packed_E_O_I: torch.Tensor, isa: str) -> torch.Tensor:
    order = _order(tuple(packed_E_O_I.shape[1:]), packed_E_O_I.dtype, isa)
    flat = packed_E_O_I.reshape(len(packed_E_O_I), -1)
    plain = torch.empty_like(flat)
    plain[:, order] = flat
    return plain.reshape(packed_E_O_I.shape)


@lru_cache(maxsize=8)
def _order(shape: tuple[int, ...], dtype: torch.dtype, isa: str) -> torch.Tensor:
    """Return the original position of each number of a packed expert: int64, (O * I,)."""
    count = shape[0] * shape[1]
    places = torch.arange(count)
    order, unit = torch.zeros(count, dtype=torch.int64), 1
    while unit < count:
        digits = (places // unit % DIGIT).to(dtype).reshape(1, *shape)
        packed = _custom_ops.cpu_prepack_moe_weight(digits, isa)
        order += packed.flatten().to(torch.int64) * unit
        unit *= DIGIT
    return order

"""Repairs what vLLM 0.32 computes wrongly on the CPU; leaves other versions unchanged.

`coevolve.engine.vllm.self_test` detects each of these and similar defects, in any version.

1. LoRA's operations treat "no adapter" (index -1) as the last adapter, so requests without one use
   it as soon as they share a batch with others. They also copy both matrices of an adapter for
   every token. `shrink` and `expand` multiply once per adapter, and leave other rows unchanged.
2. A request with a seed whose prompt is fed in several pieces ends the engine. vLLM drops tokens
   sampled from an unfinished prompt and then rewinds the request's generator, which generators on
   the CPU do not support. The repair samples such rows without the generator.
3. A model whose output shares the embedding's weights has a packed copy of them for the output.
   Loading weights does not replace this copy; `retie` does.
4. A layer of experts packs its weights only when it is first loaded. After new weights it reads
   plain weights as packed ones. The repair sets the layer up again every time.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
import vllm
from vllm.lora.punica_wrapper import punica_cpu
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import (
    UnquantizedFusedMoEMethod,
)
from vllm.platforms import current_platform
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

AFFECTED = ("0.32.0",)
"""Versions that tests showed to be wrong without these repairs and correct with them."""

Rows = slice | torch.Tensor


def apply() -> None:
    """Repair this process's vLLM, once, if its version and platform need it."""
    runner = cast("Any", CPUModelRunner)
    if not needed() or runner.sample_tokens is _sample_tokens:
        return
    module = cast("Any", punica_cpu)
    module.bgmv_shrink = shrink
    module.bgmv_expand = expand
    module.bgmv_expand_slice = expand_slice
    module.sgmv_shrink = _by_sequence(shrink)
    module.sgmv_expand = _by_sequence(expand)
    module.sgmv_expand_slice = _by_sequence(expand_slice)
    runner.sample_tokens = _sample_tokens
    experts = cast("Any", UnquantizedFusedMoEMethod)
    experts._setup_kernel = _set_up_afresh(experts._setup_kernel)


def needed() -> bool:
    """Return whether this process's vLLM needs the repairs."""
    return vllm.__version__ in AFFECTED and current_platform.is_cpu()


def shrink(
    inputs_N_I: torch.Tensor,
    down_L_r_I: torch.Tensor,
    output_N_r: torch.Tensor,
    adapter_N: torch.Tensor,
    scaling: float = 1.0,
) -> None:
    """Write each row's product with A of its adapter; L adapters, some with an extra dimension."""
    for adapter, rows in _rows_by_adapter(adapter_N):
        down_r_I = _matrix(down_L_r_I, adapter)
        product = inputs_N_I[rows].to(down_r_I.dtype) @ down_r_I.T
        output_N_r[rows, : down_r_I.shape[0]] = scaling * product.to(output_N_r.dtype)


def expand(
    inputs_N_r: torch.Tensor,
    up_L_O_r: torch.Tensor,
    output_N_O: torch.Tensor,
    adapter_N: torch.Tensor,
    add_inputs: bool = True,
) -> None:
    """Add each row's product with B of its adapter to the output, or overwrite the output."""
    width = min(up_L_O_r.shape[-2], output_N_O.shape[1])
    expand_slice(inputs_N_r, up_L_O_r, output_N_O, adapter_N, 0, width, add_inputs)


def expand_slice(
    inputs_N_r: torch.Tensor,
    up_L_O_r: torch.Tensor,
    output_N_O: torch.Tensor,
    adapter_N: torch.Tensor,
    offset: int,
    width: int,
    add_inputs: bool = True,
) -> None:
    """Do the same as `expand`, for the columns from ``offset`` on."""
    columns = slice(offset, offset + width)
    for adapter, rows in _rows_by_adapter(adapter_N):
        up_O_r = _matrix(up_L_O_r, adapter)[:width]
        product = (inputs_N_r[rows].to(up_O_r.dtype) @ up_O_r.T).to(output_N_O.dtype)
        if add_inputs:
            output_N_O[rows, columns] += product
        else:
            output_N_O[rows, columns] = product


def _rows_by_adapter(adapter_N: torch.Tensor) -> list[tuple[int, Rows]]:
    found = cast("list[int]", torch.unique(adapter_N).tolist())
    if len(found) == 1:
        return [(found[0], slice(None))] if found[0] >= 0 else []
    return [(each, (adapter_N == each).nonzero()[:, 0]) for each in found if each >= 0]


def _matrix(stacked: torch.Tensor, adapter: int) -> torch.Tensor:
    matrix = stacked[adapter]
    return matrix[0] if matrix.dim() == 3 else matrix


def _by_sequence(operation: Callable[..., None]) -> Callable[..., None]:
    """Return a version of ``operation`` that takes adapters per sequence instead of per row."""

    def operate(
        inputs: torch.Tensor,
        weights: torch.Tensor,
        output: torch.Tensor,
        starts_S: torch.Tensor,
        lengths_S: torch.Tensor,
        adapter_S: torch.Tensor,
        *others: Any,
        **named: Any,
    ) -> None:
        del starts_S
        # Arguments after the adapters: sequences, longest sequence, rows.
        adapter_N = torch.repeat_interleave(adapter_S, lengths_S)
        operation(inputs, weights, output, adapter_N, *others[3:], **named)

    return operate


_sample_as_shipped = cast("Callable[..., Any]", CPUModelRunner.sample_tokens)


def _sample_tokens(self: CPUModelRunner, grammar_output: Any) -> Any:
    """Sample as vLLM does, but without the generators of rows that vLLM then drops."""
    batch = self.input_batch
    dropped_N = cast("Any", self.discard_request_mask.np)[: batch.num_reqs]
    aside = {
        row: batch.generators.pop(row) for row in list(batch.generators) if bool(dropped_N[row])
    }
    try:
        return _sample_as_shipped(self, grammar_output)
    finally:
        batch.generators.update(aside)


def retie(model: torch.nn.Module) -> None:
    """Give a tied output the embedding's newly loaded weights."""
    inner = cast("Any", model)
    head, embedding = (
        _unwrapped_layer(inner, "lm_head"),
        _unwrapped_layer(getattr(inner, "model", None), "embed_tokens"),
    )
    tied = getattr(inner.config, "tie_word_embeddings", False)
    if needed() and tied and hasattr(head, "cpu_linear") and embedding is not None:
        head.weight = embedding.weight
        head.quant_method.process_weights_after_loading(head)


def _unwrapped_layer(owner: Any, name: str) -> Any:
    """Return a layer without LoRA's wrapper; None if there is no such layer."""
    layer = getattr(owner, name, None)
    return getattr(layer, "base_layer", layer)


def _set_up_afresh(set_up: Callable[..., None]) -> Callable[..., None]:
    """Return ``set_up`` for a layer of experts, which then treats every set-up as the first."""

    def afresh(method: Any, layer: torch.nn.Module, w13: torch.Tensor, w2: torch.Tensor) -> None:
        method.moe_kernel = None
        set_up(method, layer, w13, w2)

    return afresh

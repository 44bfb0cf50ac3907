"""Creates a second vLLM model from the config, without weights.

Its tables and settings are those of the config, whatever has changed in the sampling model, because
the two models share nothing. The formulas are vLLM's own; `coevolve.engine.vllm.self_test` compares
them with transformers.
"""

import copy
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode
from vllm.config import VllmConfig
from vllm.model_executor.layers import rotary_embedding
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.utils.torch_utils import set_default_torch_dtype

from coevolve.weights.settings import config_settings, module_settings, modules_of

WRAPPED = ".base_layer"
"""Suffix that LoRA adds to the name of a layer that it wraps."""

_LOADED = ("cpu_linear", "isa", "lora_manager", "moe_kernel", "moe_quant_config")
"""Attributes chosen for the processor or added to the model when weights are loaded."""


class _WithoutWeights(TorchFunctionMode):
    """Allocates no memory for tensors that are filled later."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        return func(*args, **(named | {"device": "meta"} if func is torch.empty else named))


def fresh_model(config: VllmConfig) -> torch.nn.Module:
    """Return a new model of ``config``; tensors computed from the config have their values."""
    own, compilation = copy.copy(config), copy.copy(config.compilation_config)
    # Layers register here by name, and each name may be registered only once.
    compilation.static_forward_context, compilation.static_all_moe_layers = {}, []
    own.compilation_config = compilation
    device = torch.device(cast("str", config.device_config.device))
    with (
        _no_table_kept(),
        set_default_torch_dtype(config.model_config.dtype),
        device,
        _WithoutWeights(),
    ):
        return initialize_model(own).eval()


@contextmanager
def _no_table_kept() -> Generator[None]:
    """Keep vLLM from reusing a rotary embedding that it made before."""
    shared = cast("dict[Any, Any]", cast("Any", rotary_embedding)._ROPE_DICT)
    kept = dict(shared)
    shared.clear()
    try:
        yield
    finally:
        shared.clear()
        shared.update(kept)


def settings_of(model: torch.nn.Module) -> dict[str, str]:
    """Return the settings of a vLLM model, by names without LoRA's suffix."""
    found = config_settings(model)
    for name, module in modules_of(model):
        if not hasattr(module, "base_layer"):
            found |= module_settings(name.replace(WRAPPED, ""), module, leaving_out=_LOADED)
    return found

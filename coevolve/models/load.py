"""Reads a causal language model from a folder in Hugging Face layout."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from accelerate import init_empty_weights
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

_READING = threading.Lock()
"""Transformers replaces functions of torch and of its own while it reads a model, for all
threads."""


def read_model(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return the model on the CPU, without dropout; models are read one at a time."""
    transformers.utils.logging.disable_progress_bar()
    with _READING:
        return AutoModelForCausalLM.from_pretrained(
            folder,
            config=_without_dropout(AutoConfig.from_pretrained(folder, local_files_only=True)),
            dtype=dtype,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
        )


def read_outline(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return the model without its weights; what is computed from its config has its values."""
    return _outline(AutoConfig.from_pretrained(folder, local_files_only=True), dtype)


def outline_of(settings: Mapping[str, Any], dtype: torch.dtype) -> PreTrainedModel:
    """Return the model of a decoded `config.json` without weights.

    Raises ValueError where transformers makes none of it.
    """
    others = dict(settings)
    kind = others.pop("model_type", "")
    return _outline(cast("Any", AutoConfig).for_model(kind, **others), dtype)


def _outline(config: Any, dtype: torch.dtype) -> PreTrainedModel:
    with _READING:
        with init_empty_weights(include_buffers=False):
            model = cast("Any", AutoModelForCausalLM).from_config(
                _without_dropout(config), dtype=dtype
            )
        model.tie_weights()
    return model


def _without_dropout(config: Any) -> Any:
    """Return the config with every dropout at 0: the policy is what the engine samples."""
    for name in config.to_dict():
        if "drop" in name and isinstance(getattr(config, name), float):
            setattr(config, name, 0.0)
    return config

"""Reads a causal language model from a folder in Hugging Face layout."""

import threading
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
            config=_without_dropout(folder),
            dtype=dtype,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
        )


def read_outline(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return the model without its weights; what is computed from its config has its values."""
    config = _without_dropout(folder)
    with _READING:
        with init_empty_weights(include_buffers=False):
            model = cast("Any", AutoModelForCausalLM).from_config(config, dtype=dtype)
        model.tie_weights()
    return model


def _without_dropout(folder: Path) -> Any:
    """Return the model's config with every dropout at 0: the policy is what the engine samples."""
    config = cast("Any", AutoConfig.from_pretrained(folder, local_files_only=True))
    for name in config.to_dict():
        if "drop" in name and isinstance(getattr(config, name), float):
            setattr(config, name, 0.0)
    return config

"""Reads a causal language model from a folder in Hugging Face layout."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from accelerate import init_empty_weights
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from protocols.errors import ConfigError

_READING = threading.Lock()
"""While it reads a model, transformers replaces functions of torch and its own, for all threads."""


def read_model(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return the model on the CPU, without dropout; models are read one at a time.

    Raises ConfigError if transformers cannot make a causal language model from its config.
    """
    transformers.utils.logging.disable_progress_bar()
    config = read_config(folder)
    with _READING:
        return AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation=_attention(config),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )


def read_outline(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return the model without its weights; tensors computed from its config have their values.

    Raises ConfigError if transformers cannot make a causal language model from its config.
    """
    return _outline(read_config(folder), dtype)


def outline_of(settings: Mapping[str, Any], dtype: torch.dtype) -> PreTrainedModel:
    """Return the model of a decoded `config.json` without weights.

    Raises ValueError if transformers cannot make a model from it.
    """
    others = dict(settings)
    kind = others.pop("model_type", "")
    config = cast("Any", AutoConfig).for_model(kind, **others)
    return _outline(_without_dropout(config), dtype)


def _outline(config: Any, dtype: torch.dtype) -> PreTrainedModel:
    with _READING:
        with init_empty_weights(include_buffers=False):
            model = cast("Any", AutoModelForCausalLM).from_config(config, dtype=dtype)
        # As after reading weights: tables may have been computed in the model's precision before.
        model.apply(model._init_weights)
        model.tie_weights()
    return model


def read_config(folder: Path) -> Any:
    """Return the model's config, without dropout. Raises ConfigError."""
    try:
        config = cast("Any", AutoConfig).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except ValueError as error:
        raise _config_error(folder, f"{error}") from error
    if type(config) not in cast("Any", AutoModelForCausalLM)._model_mapping:
        raise _config_error(folder, f"found {config.model_type}")
    return _without_dropout(config)


def _config_error(folder: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"policy.model: {folder / 'config.json'} must be that of a causal language model which "
        f"transformers {transformers.__version__} supports: {reason}; choose another model, or "
        "another version of transformers"
    )


def _attention(config: Any) -> str:
    """Return the fastest attention that the model supports without further packages."""
    kind = cast("Any", AutoModelForCausalLM)._model_mapping[type(config)]
    return "sdpa" if getattr(kind, "_supports_sdpa", False) else "eager"


def _without_dropout(config: Any) -> Any:
    """Return the config with every dropout at 0, so that trainer and engine agree."""
    for name in config.to_dict():
        if "drop" in name and isinstance(getattr(config, name), float):
            setattr(config, name, 0.0)
    return config

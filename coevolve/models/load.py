"""Reads a causal language model from a folder in Hugging Face layout."""

import math
import threading
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from accelerate import init_empty_weights
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from coevolve.base.foreign import boundary, described, plain
from coevolve.models.model_files import DOWNLOAD_AGAIN, check_config, shapes_of
from protocols.errors import ConfigError

_READING = threading.Lock()
"""While it reads a model, transformers replaces functions of torch and its own, for all threads."""


_WHOLE = "weights that fit its config.json"
_LACKING = ("missing_keys", "mismatched_keys", "error_msgs")
"""Parts of transformers' report on reading weights."""


def read_model(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return the model on the CPU, without dropout; models are read one at a time.

    Raises ConfigError if transformers cannot make a causal language model from its config, or the
    weights do not fit it. Code in the folder is never run.
    """
    transformers.utils.logging.disable_progress_bar()
    config = read_config(folder)
    _check_size(folder, config)
    with boundary(ConfigError, f"policy.model: {folder} needs {_WHOLE}", DOWNLOAD_AGAIN), _READING:
        model, report = cast("Any", AutoModelForCausalLM).from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation=_attention(config),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    _check_complete(folder, report)
    return model


def _check_size(folder: Path, config: Any) -> None:
    """Refuse files with fewer numbers than the model has, before memory is taken for the others.

    Raises ConfigError. Quantized weights have several numbers in one, and are not counted.
    """
    if getattr(config, "quantization_config", None):
        return
    with boundary(ConfigError, f"policy.model: {folder} needs {_WHOLE}", DOWNLOAD_AGAIN):
        with _READING, torch.device("meta"):
            model = cast("Any", AutoModelForCausalLM).from_config(config, trust_remote_code=False)
        needed = sum(each.numel() for each in model.parameters())
        files = sorted(folder.glob("*.safetensors"))
        held = sum(math.prod(shape) for file in files for shape in shapes_of(file).values())
    if held < needed:
        raise ConfigError(
            f"policy.model: {folder} needs {_WHOLE}, found {held} numbers for a model of {needed}"
            f"{DOWNLOAD_AGAIN}"
        )


def _check_complete(folder: Path, report: Mapping[str, Any]) -> None:
    """Refuse weights that lack a tensor: transformers makes random ones. Raises ConfigError."""
    lacking = [f"{name}" for kind in _LACKING for name in report.get(kind) or ()]
    if lacking:
        raise ConfigError(
            f"policy.model: {folder} needs {_WHOLE}, found {len(lacking)} missing or of another "
            f"shape, the first {plain(min(lacking))}{DOWNLOAD_AGAIN}"
        )


def read_outline(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return the model without its weights; tensors computed from its config have their values.

    Raises ConfigError if transformers cannot make a causal language model from its config.
    """
    config = read_config(folder)
    with boundary(
        ConfigError, f"policy.model: {folder} needs a usable config.json", DOWNLOAD_AGAIN
    ):
        return _outline(config, dtype)


def outline_of(settings: Mapping[str, Any], dtype: torch.dtype) -> PreTrainedModel:
    """Return the model of a decoded `config.json` without weights.

    Raises ValueError if transformers cannot make a model from it.
    """
    others = dict(settings)
    kind = others.pop("model_type", "")
    config = cast("Any", AutoConfig).for_model(kind, **others)
    return _outline(_neutral(config), dtype)


def _outline(config: Any, dtype: torch.dtype) -> PreTrainedModel:
    with _READING:
        with init_empty_weights(include_buffers=False):
            model = cast("Any", AutoModelForCausalLM).from_config(
                config,
                dtype=dtype,
                attn_implementation=_attention(config),
                trust_remote_code=False,
            )
        # As after reading weights: tables may have been computed in the model's precision before.
        model.apply(model._init_weights)
        model.tie_weights()
    return model


def cache_argument(model: PreTrainedModel) -> str:
    """Return the name of a model's argument for keys and values; empty if it takes none.

    It is ``past_key_values``, or ``cache`` in newer versions of transformers.
    """
    names = signature(model.forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in names), "")


def read_config(folder: Path) -> Any:
    """Return the model's config, without dropout. Raises ConfigError."""
    check_config(folder)
    try:
        config: Any = cast("Any", AutoConfig).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise _config_error(folder, described(error)) from error
    if type(config) not in cast("Any", AutoModelForCausalLM)._model_mapping:
        raise _config_error(folder, f"found {plain(f'{config.model_type}')}")
    return _neutral(config)


def _config_error(folder: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"policy.model: {folder / 'config.json'} must be that of a causal language model which "
        f"transformers {transformers.__version__} supports: {reason}; choose another model, or "
        "another version of transformers"
    )


def _attention(config: Any) -> str:
    """Return the fastest attention that the model supports without further packages.

    Only the eager one caps the logits of attention (Gemma 2); the others leave the cap out, without
    a word.
    """
    if getattr(config, "attn_logit_softcapping", None):
        return "eager"
    kind = cast("Any", AutoModelForCausalLM)._model_mapping.get(type(config), None)
    return "sdpa" if getattr(kind, "_supports_sdpa", False) else "eager"


def _neutral(config: Any) -> Any:
    """Return the config with every dropout at 0, so that trainer and engine agree.

    Its choice of attention is dropped, too: it could name code of a hub.
    """
    config._attn_implementation = None
    for name in config.to_dict():
        if "drop" in name and isinstance(getattr(config, name), float):
            setattr(config, name, 0.0)
    return config

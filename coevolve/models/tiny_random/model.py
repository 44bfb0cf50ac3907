"""Writes a tiny model with random weights and another model's architecture, to test a run file.

The architecture is that of the model's `config.json`: its class, norms, positions and tied weights,
including a mixture of experts. The same seed always makes the same files.
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from coevolve.models.architecture import ModelConfig
from coevolve.models.atomic_folder import write_folder
from coevolve.models.model_folder import local_folder, model_config
from coevolve.models.tiny_random.sizes import tiny_config
from coevolve.models.tiny_random.tokenizer import format_of, make_tokenizer
from protocols.config import RunConfig
from protocols.errors import ConfigError


def write_model(config: RunConfig, folder: Path, texts: Iterable[str]) -> None:
    """Write the tiny random model of ``config`` into ``folder``; keep an existing one.

    Its tokenizer is trained on ``texts``.

    Raises:
        ConfigError: Transformers does not support the model's architecture.
        CheckpointError: Writing failed.
    """
    if folder.is_dir():
        return
    own = model_config(config.policy)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = make_tokenizer(format_of(local_folder(config.policy.model)), texts)
    small = tiny_config(
        own,
        vocabulary=len(tokenizer),
        length=config.rollout.max_tokens,
        end=cast("int", tokenizer.eos_token_id),
        pad=cast("int", tokenizer.pad_token_id),
    )
    model = _new_model(small, config.seed)

    def write(place: Path) -> None:
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)

    write_folder(folder, write)


def _new_model(config: ModelConfig, seed: int) -> Any:
    settings = dict(config)
    kind = settings.pop("model_type", "")
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"policy.tiny_random: needs an architecture that transformers supports, found "
            f"{kind!r}: {error}; omit the setting"
        ) from error

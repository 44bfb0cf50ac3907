"""Writes the weights of a policy version in the formats of other libraries.

An adapter is a byte-by-byte copy of the run's file. Full weights get the parameter names of their
published architecture. An adapter is merged in float32, as the engines that serve it do.
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from coevolve.export.versions import HeldVersion
from coevolve.models.load import read_model
from coevolve.models.model_folder import model_folder
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.weight_files import version_digest
from coevolve.weights.published import read_published
from protocols.config import RunConfig
from protocols.errors import RunError

CONFIG_FILES = ("config.json", "generation_config.json", "adapter_config.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
)
"""File names that `transformers` reads for a tokenizer and its chat template."""


def write_adapter(held: HeldVersion, config: RunConfig, folder: Path) -> None:
    """Write the adapter of ``held`` in PEFT's layout. Raises RunError if it has none."""
    if held.version.format != "lora":
        raise RunError(
            f"version {held.version.version} has full weights (policy.train: full) and no "
            "adapter; export `merged` instead"
        )
    _copy_weights(held, folder)
    _copy_tokenizer(config, folder)


def write_merged(held: HeldVersion, config: RunConfig, folder: Path) -> None:
    """Write the complete model of ``held``, which transformers loads without PEFT."""
    if held.version.format == "lora":
        _merge(held, config, folder)
    else:
        with scratch_folder() as copy:
            _copy_weights(held, copy.path)
            read_model(copy.path).save_pretrained(folder)
    _copy_tokenizer(config, folder)


def _merge(held: HeldVersion, config: RunConfig, folder: Path) -> None:
    model = read_model(model_folder(config.policy.model))
    version = msgspec.structs.replace(held.version, path=".")
    weights = read_published(version, held.folder).weights(dict(model.named_parameters()))
    model.load_state_dict(weights, strict=False)
    model.save_pretrained(folder)


def _copy_weights(held: HeldVersion, folder: Path) -> None:
    """Copy weights and configs; raise RunError if they differ from the journal's digest."""
    number = held.version.version
    try:
        shutil.copyfile(held.weights, folder / held.weights.name)
        _copy(held.folder, CONFIG_FILES, folder)
        found = version_digest(folder, held.version.format)
    except FileNotFoundError as error:
        raise RunError(
            f"{held.folder}: version {number} was removed during the copy; "
            "export --version newest, or a version that the run scores"
        ) from error
    if found != held.version.digest:
        raise RunError(
            f"{held.weights}: is not the file that the journal recorded as version {number}: its "
            f"digest is {found[:12]}, not {held.version.digest[:12]}; export another version"
        )


def _copy_tokenizer(config: RunConfig, folder: Path) -> None:
    _copy(model_folder(config.policy.model), TOKENIZER_FILES, folder)


def _copy(source: Path, names: Iterable[str], folder: Path) -> None:
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)

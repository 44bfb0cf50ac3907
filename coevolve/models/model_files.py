"""Reads the small files of a model's folder, and the heads of its weights; imports are light.

The folder may come from anybody. A file that cannot be used raises ConfigError, whatever is in it.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from safetensors import safe_open

from coevolve.base.foreign import boundary, bytes_of, check_values, open_plain, plain, shown
from protocols.errors import ConfigError

ADAPTER = "adapter_config.json"
"""File that makes transformers look for an adapter in a model's folder."""

MAX_LAYERS = 2_000
MAX_SIZE = 2**31 - 1
"""Maximum of any other whole number in a `config.json`."""

MOST_BYTES = 64 << 20
"""Maximum bytes of a file of settings; the largest list many thousand tensors or tokens..."""

MOST_VALUES = 1_000_000
"""... and maximum values in it."""

MAX_REASON_CHARS = 1_000
"""Maximum characters of why a chat template is refused, which may quote the template."""

DOWNLOAD_AGAIN = "; download the model again, or choose another one"

TokenIds = int | list[int] | None


def has_chat_template(folder: Path) -> bool:
    """Return whether the model has a chat template, or several with names."""
    if (folder / "chat_template.jinja").is_file():
        return True
    if any(folder.glob("additional_chat_templates/*.jinja")):
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and bool(read_settings(settings).get("chat_template"))


def ends_of_text(folder: Path) -> tuple[int, ...]:
    """Return the end-of-text tokens of the model's generation settings."""
    settings = folder / "generation_config.json"
    if not settings.is_file():
        return ()
    with _usable(settings, "a number or a list of numbers as eos_token_id"):
        return as_ids(read_settings(settings).get("eos_token_id"))


def as_ids(found: object) -> tuple[int, ...]:
    """Return a setting's token ids as a tuple. Raises ValidationError if it has others."""
    ids: int | list[int] | None = msgspec.convert(found, TokenIds)
    if ids is None:
        return ()
    return (ids,) if isinstance(ids, int) else tuple(ids)


def read_settings(path: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file of a model. Raises ConfigError."""
    with _usable(path, "a JSON object"):
        content = bytes_of(path, MOST_BYTES)
        check_values(content, MOST_VALUES)
        return msgspec.json.decode(content, type=dict[str, Any])


def refuse_adapter(folder: Path) -> None:
    """Refuse a model with an adapter beside its weights. Raises ConfigError.

    transformers would add it to the model by itself; engines would not.
    """
    path = folder / ADAPTER
    if os.path.lexists(path):
        raise ConfigError(
            f"policy.model: {path} is the adapter of a model, and a policy starts from whole "
            "weights; merge the adapter into the model (merge_and_unload of peft), or remove the "
            "file to start without the adapter"
        )


def check_config(folder: Path) -> None:
    """Refuse a `config.json` of a size that nobody could build, and an adapter beside it.

    Raises ConfigError.
    """
    refuse_adapter(folder)
    path = folder / "config.json"
    for name, value in _leaves(read_settings(path)):
        most = MAX_LAYERS if "layers" in name else MAX_SIZE
        if isinstance(value, int) and abs(value) > most:
            raise ConfigError(
                f"policy.model: {path} needs at most {most} as {plain(name)}, found {shown(value)}"
                f"{DOWNLOAD_AGAIN}"
            )


def _leaves(tree: Any, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value in a JSON tree with the name of the section or list that has it."""
    if isinstance(tree, dict):
        for key, value in cast("dict[str, Any]", tree).items():
            yield from _leaves(value, key)
    elif isinstance(tree, list):
        for value in cast("list[Any]", tree):
            yield from _leaves(value, name)
    else:
        yield name, tree


def shapes_of(path: Path) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes of the tensors in a safetensors file, by name. Raises ConfigError.

    It reads the head of the file, which says where each tensor is; the rest has to be there.
    """
    what = "tensors in the format safetensors"
    with _usable(path, what), open_plain(path), cast("Any", safe_open(path, "numpy")) as file:
        names: list[str] = list(file.keys())
        return {name: tuple(file.get_slice(name).get_shape()) for name in names}


def _usable(path: Path, what: str) -> Any:
    return boundary(ConfigError, f"policy.model: {path} needs to hold {what}", DOWNLOAD_AGAIN)


def unusable(reason: str) -> ConfigError:
    """Return the error for a chat template that cannot be used for training."""
    said = plain(reason, MAX_REASON_CHARS)
    return ConfigError(
        f"policy.model: its chat template cannot be used: {said}; choose a model whose template "
        "ends assistant messages with a special token and leaves the rest unchanged"
    )

"""The files of a policy version and of the run's initial model, and their digests."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from coevolve.base.foreign import open_plain
from protocols.learning import WeightsFormat

WEIGHTS_FILES: Mapping[WeightsFormat, str] = {
    "full": "model.safetensors",
    "lora": "adapter_model.safetensors",
}
"""Names that `transformers` and `peft` give to the file with the weights."""

SETTINGS_FILES: Mapping[WeightsFormat, str] = {
    "full": "config.json",
    "lora": "adapter_config.json",
}
"""Names of the settings files, which hold for example the scale of an adapter."""

SPARE = 2
"""Number of versions kept beyond the staleness bound, because an engine may still read one."""

PLACES = ("_name_or_path", "base_model_name_or_path", "peft_version", "transformers_version")
"""Settings about the origin of weights, without effect on them."""


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises OSError."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def version_digest(folder: Path, format: WeightsFormat) -> str:
    """Return the digest of the policy version in ``folder``, as in its record.

    It covers the weights file and its settings. Raises OSError if one of them is missing or
    unreadable.
    """
    weights = file_digest(folder / WEIGHTS_FILES[format])
    with open_plain(folder / SETTINGS_FILES[format]) as settings:
        return with_settings(weights, settings.read())


def with_settings(digest: str, settings: bytes) -> str:
    """Return the digest of a version whose weights file has ``digest``.

    It does not depend on the order in which `peft` writes module names, which differs between
    processes.
    """
    try:
        found = decode_settings(settings)
    except ValueError:
        return hashlib.sha256(digest.encode() + settings).hexdigest()
    kept = {name: _sort_names(value) for name, value in found.items() if name not in PLACES}
    return hashlib.sha256(f"{digest}\n{json.dumps(kept, sort_keys=True)}".encode()).hexdigest()


def decode_settings(settings: bytes) -> dict[str, Any]:
    """Return a version's settings. Raises ValueError if they are not a JSON object."""
    return msgspec.json.decode(settings, type=dict[str, Any])


def model_digest(folder: Path) -> str:
    """Return the SHA-256 over config and weights of a model in Hugging Face layout.

    Raises OSError if a file cannot be read.
    """
    return files_digest(folder, (folder / "config.json", *sorted(folder.glob("*.safetensors"))))


def files_digest(folder: Path, paths: Iterable[Path]) -> str:
    """Return the SHA-256 over files below ``folder``, including names, in the order of ``paths``.

    Raises OSError if one cannot be read.
    """
    return joint_digest((path.relative_to(folder).as_posix(), file_digest(path)) for path in paths)


def joint_digest(files: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 over names and digests of files, in the given order."""
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name}\0{content}\n".encode())
    return digest.hexdigest()


def _sort_names(value: object) -> object:
    """Return a list of names in order, because JSON stores a set as a list."""
    members = cast("list[object]", value) if isinstance(value, list) else []
    if members and all(isinstance(each, str) for each in members):
        return sorted(cast("list[str]", members))
    return cast("object", value)

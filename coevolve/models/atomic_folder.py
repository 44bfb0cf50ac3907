"""Folders that exist whole or not at all, and their digests.

A folder is written under a temporary name beside its place, every file and the folder are synced to
disk, and a rename puts it there. Who finds a folder under its own name finds all of it; what a
killed writer leaves behind has a name that starts with a dot and is removed by the next writer.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog
from safetensors import SafetensorError

from coevolve.models.weight_files import files_digest
from protocols.errors import CheckpointError
from protocols.learning import Checkpoint

PARTIAL = ".partial-"

REFUSED = (OSError, SafetensorError, RuntimeError)
"""A disk that refuses, in the words of Python, of safetensors and of `torch.save`."""

log = structlog.get_logger()


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a new folder and put it at ``folder``, in place of one that is there.

    Raises:
        CheckpointError: The disk refused; ``folder`` is as it was.
    """
    partial = folder.parent / f"{PARTIAL}{folder.name}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write(partial)
        for path in (*_files(partial), partial):
            _sync(path)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
        _sync(folder.parent)
    except REFUSED as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"{folder}: cannot be written: {error}; free disk space or fix permissions, then resume"
        ) from error


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 over all files below ``folder``, names included, in name order."""
    return files_digest(folder, _files(folder))


def folder_size(folder: Path) -> int:
    """Return the bytes in all files below ``folder``."""
    return sum(path.stat().st_size for path in _files(folder))


def verify(run_dir: Path, checkpoint: Checkpoint) -> None:
    """Raise CheckpointError unless the folder is the one that the journal registered."""
    folder = run_dir / checkpoint.path
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder}: the checkpoint of step {checkpoint.step} is missing; put the folder back"
        )
    found = folder_digest(folder)
    if found != checkpoint.digest:
        raise CheckpointError(
            f"{folder}: the checkpoint of step {checkpoint.step} is incomplete or was changed: "
            f"its digest is {found[:12]}, the journal says {checkpoint.digest[:12]}"
        )


def newest_valid(run_dir: Path, checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the last of ``checkpoints`` that is whole, with a warning for each that is not."""
    for checkpoint in sorted(checkpoints, key=lambda each: each.step, reverse=True):
        try:
            verify(run_dir, checkpoint)
        except CheckpointError as error:
            log.warning("checkpoint_skipped", step=checkpoint.step, reason=str(error))
            continue
        return checkpoint
    return None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

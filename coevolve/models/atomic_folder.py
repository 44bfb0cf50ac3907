"""Writes folders atomically, so that they exist completely or not at all; computes their digests.

A folder is written under a temporary name in the same place. Every file and the folder are synced
to disk, and then a rename publishes it. A folder under its final name is therefore complete. A
killed writer leaves a folder whose name starts with a dot; the next writer deletes it.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from coevolve.base.durable_files import make_folder, sync
from coevolve.models.weight_files import files_digest
from protocols.errors import CheckpointError
from protocols.learning import Checkpoint

PARTIAL = ".partial-"

REFUSED = (OSError, SafetensorError, RuntimeError)
"""Errors of a full or read-only disk, from Python, safetensors and `torch.save`."""


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Create a folder with ``write`` and move it to ``folder``, replacing an existing one.

    If this fails or is interrupted, nothing is left, and ``folder`` is unchanged.

    Raises:
        CheckpointError: Writing failed.
    """
    try:
        write(begin_folder(folder))
        finish_folder(folder)
    except BaseException as error:
        shutil.rmtree(partial_of(folder), ignore_errors=True)
        if not isinstance(error, REFUSED):
            raise
        raise CheckpointError(
            f"{folder}: cannot be written: {error}; free disk space or fix permissions, then resume"
        ) from error


def partial_of(folder: Path) -> Path:
    """Return the temporary name under which ``folder`` is written."""
    return folder.parent / f"{PARTIAL}{folder.name}"


def published(partial: Path) -> Path:
    """Return the final name of a folder with a temporary name."""
    return partial.with_name(partial.name.removeprefix(PARTIAL))


def begin_folder(folder: Path) -> Path:
    """Return a new, empty folder under the temporary name of ``folder``. Raises OSError."""
    partial = partial_of(folder)
    shutil.rmtree(partial, ignore_errors=True)
    make_folder(folder.parent, exist_ok=True)
    partial.mkdir()
    return partial


def finish_folder(folder: Path) -> None:
    """Sync what was written under the temporary name to disk and publish it. Raises OSError."""
    partial = partial_of(folder)
    for path in (*partial.rglob("*"), partial):
        sync(path)
    remove(folder)
    partial.rename(folder)
    sync(folder.parent)


def remove(path: Path) -> None:
    """Remove a folder, or whatever stands in its place. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 over all files below ``folder``, including names, in name order."""
    return files_digest(folder, files_in(folder))


def folder_size(folder: Path) -> int:
    """Return the bytes in all files below ``folder``."""
    return sum(path.stat().st_size for path in files_in(folder))


def verify(run_dir: Path, checkpoint: Checkpoint) -> None:
    """Raise CheckpointError unless the folder matches its record in the journal."""
    folder = run_dir / checkpoint.path
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder}: the checkpoint of step {checkpoint.step} is missing; restore the folder"
        )
    found = folder_digest(folder)
    if found != checkpoint.digest:
        raise CheckpointError(
            f"{folder}: the checkpoint of step {checkpoint.step} is incomplete or was changed: "
            f"its digest is {found[:12]}, the journal says {checkpoint.digest[:12]}"
        )


def files_in(folder: Path) -> list[Path]:
    """Return all files below ``folder``, in name order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())

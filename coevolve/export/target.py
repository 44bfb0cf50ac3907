"""The folder of an export; it appears complete or not at all."""

import shutil
from collections.abc import Callable
from pathlib import Path

from coevolve.models.atomic_folder import PARTIAL, write_folder
from protocols.errors import CheckpointError, RunError


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

"""The folder that an export fills: there as a whole in the end, or not at all."""

import shutil
from collections.abc import Callable
from pathlib import Path

from coevolve.models.atomic_folder import PARTIAL, write_folder
from protocols.errors import CheckpointError, RunError


def check_target(target: Path) -> None:
    """Raise RunError unless ``target`` is free: an export never replaces anything."""
    try:
        free = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    except OSError as error:
        raise RunError(
            f"{target}: cannot be looked into: {error}; give another --to DIR"
        ) from error
    if not free:
        raise RunError(
            f"{target}: an export needs a new or an empty folder, and this one holds something; "
            "give another --to DIR, or remove it"
        )


def write_target(target: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a folder beside ``target``, and put it there when it is complete.

    Raises:
        RunError: ``target`` holds something, or the disk refused; nothing is left behind then.
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

"""Folders for programs in the sandbox; they are in memory if the machine has /dev/shm."""

import os
import tempfile
from pathlib import Path

from coevolve.models import scratch_folder
from protocols.errors import SimulatorError

PREFIX = "coevolve-sandbox-"


class WorkFolder:
    """A new, empty folder; its owner removes it."""

    def __init__(self) -> None:
        """Create the folder. Raises SimulatorError if the machine has no room for it."""
        base = _base()
        try:
            self._held = scratch_folder.ScratchFolder(PREFIX, base)
        except OSError as error:
            raise SimulatorError(f"cannot create a folder in {base}: {error}") from error
        self.path = self._held.path

    def remove(self) -> None:
        """Remove the folder and its content; call it once."""
        self._held.remove()


def sweep() -> None:
    """Remove the folders of processes that were killed."""
    scratch_folder.sweep(PREFIX, _base())


def _base() -> Path:
    shared = Path("/dev/shm")  # noqa: S108, mkdtemp makes a private folder
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())

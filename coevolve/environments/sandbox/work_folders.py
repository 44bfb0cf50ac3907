"""Folders for what runs in the sandbox, in memory where the machine has /dev/shm."""

import os
import tempfile
from pathlib import Path

from coevolve.models import scratch_folder
from protocols.errors import SimulatorError

PREFIX = "coevolve-hdl-"


class WorkFolder:
    """One folder, empty at first; its owner removes it."""

    def __init__(self) -> None:
        """Make it. Raises SimulatorError where the machine has no room for it."""
        base = _base()
        try:
            self._held = scratch_folder.ScratchFolder(PREFIX, base)
        except OSError as error:
            raise SimulatorError(f"no folder could be made in {base}: {error}") from error
        self.path = self._held.path

    def remove(self) -> None:
        """Remove it and all that is in it; once."""
        self._held.remove()


def sweep() -> None:
    """Remove the folders that killed processes left behind."""
    scratch_folder.sweep(PREFIX, _base())


def _base() -> Path:
    shared = Path("/dev/shm")  # noqa: S108, mkdtemp makes the folder ours alone
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())

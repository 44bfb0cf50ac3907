"""Folders for what runs in the sandbox, in memory where the machine has /dev/shm.

Their owner removes them. It also holds a kernel lock on each, which goes with its process: what a
killed one left behind is known by being free, and is removed by the next `sweep`.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from protocols.errors import SimulatorError

PREFIX = "coevolve-hdl-"
YOUNG_S = 60.0
"""Age up to which a folder may be one that is not locked yet."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkFolder:
    """One folder, empty at first."""

    def __init__(self) -> None:
        """Make it. Raises SimulatorError where the machine has no room for it."""
        base = _base()
        try:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            self._lock = os.open(self.path, _FOLDER)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SimulatorError(f"no folder could be made in {base}: {error}") from error

    def remove(self) -> None:
        """Remove it and all that is in it; once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def sweep() -> None:
    """Remove the folders that killed processes left behind."""
    for path in _base().glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > YOUNG_S:
                _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    with _opened(path) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int]:
    folder = os.open(path, _FOLDER)
    try:
        yield folder
    finally:
        os.close(folder)


def _base() -> Path:
    shared = Path("/dev/shm")  # noqa: S108, mkdtemp makes the folder ours alone
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())

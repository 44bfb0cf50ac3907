"""Folders for what is of use to one process alone.

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
from typing import Self

PREFIX = "coevolve-scratch-"
YOUNG_S = 60.0
"""Age up to which a folder may be one that is not locked yet."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ScratchFolder:
    """One folder, empty at first; as a context it is removed at the end."""

    def __init__(self, prefix: str, base: Path) -> None:
        """Make it in ``base``, under a name that begins with ``prefix``. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
        self._lock = os.open(self.path, _FOLDER)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove it and all that is in it; once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def scratch_folder() -> ScratchFolder:
    """Return a new temporary folder; what killed processes left beside it is removed."""
    base = Path(tempfile.gettempdir())
    sweep(PREFIX, base)
    return ScratchFolder(PREFIX, base)


def sweep(prefix: str, base: Path) -> None:
    """Remove the folders in ``base`` that killed processes left behind."""
    for path in base.glob(f"{prefix}*"):
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

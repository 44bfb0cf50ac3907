"""Temporary folders for a single process.

Their owner removes them. It also holds a kernel lock on each, which the process's end releases. The
next `sweep` removes unlocked folders, which killed processes left behind.
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
"""A folder younger than this may not be locked yet. One from the future is from before the clock
was set back."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ScratchFolder:
    """One folder, initially empty; as a context manager, it is removed at the end."""

    def __init__(self, prefix: str, base: Path) -> None:
        """Create it in ``base``, with a name that begins with ``prefix``. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
        self._lock = os.open(self.path, _FOLDER)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove the folder and its content; call this only once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def scratch_folder() -> ScratchFolder:
    """Return a new temporary folder; removes those that killed processes left behind."""
    base = Path(tempfile.gettempdir())
    sweep(PREFIX, base)
    return ScratchFolder(PREFIX, base)


def sweep(prefix: str, base: Path) -> None:
    """Remove the folders in ``base`` that killed processes left behind."""
    for path in base.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if not 0.0 <= time.time() - path.lstat().st_mtime <= YOUNG_S:
                _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    with _open_folder(path) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _open_folder(path: Path) -> Generator[int]:
    folder = os.open(path, _FOLDER)
    try:
        yield folder
    finally:
        os.close(folder)

"""Opens, reads and writes files in a folder that others can write to, without following links.

Each name is that of one file or folder, without a path, and is looked up in a folder that is held
open. So nothing that others plant meanwhile can lead outside.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Generator
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def folder(path: Path | str, *, inside: int | None = None) -> Generator[int]:
    """Hold a folder open. Raises OSError, also if it is a link."""
    descriptor = os.open(path, _FOLDER, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_folder(name: str, *, inside: int) -> None:
    """Make a folder unless there is one; a link or a file in its place goes. Raises OSError."""
    try:
        os.mkdir(_single(name), dir_fd=inside)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=inside)
            os.mkdir(name, dir_fd=inside)


def read(inside: int, name: str, most: int) -> bytes:
    """Return at most ``most`` bytes of a regular file. Raises OSError."""
    # Non-blocking, because a planted FIFO would block the reader for ever.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(_single(name), flags, dir_fd=inside), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is no regular file")
        return file.read(most)


def write(inside: int, name: str, data: bytes) -> None:
    """Write a file atomically, over whatever had the name. Raises OSError."""
    partial = f".{_single(name)}.{os.getpid()}.partial"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial, dir_fd=inside)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(partial, flags, 0o644, dir_fd=inside), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(partial, name, src_dir_fd=inside, dst_dir_fd=inside)


def exists(name: str, *, inside: int) -> bool:
    """Return whether anything has the name, a broken link as well. Raises OSError."""
    try:
        os.stat(_single(name), dir_fd=inside, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove(name: str, *, inside: int) -> None:
    """Remove what has the name: a folder as far as it can be removed, and only the link of a link.

    Raises OSError if a file or a link cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(_single(name), dir_fd=inside, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=inside)
        else:
            os.unlink(name, dir_fd=inside)


def _single(name: str) -> str:
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise OSError(0, f"a name without a path is required, found {name!r}")
    return name

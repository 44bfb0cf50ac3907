"""Files and folders that are still there, and complete, after a power cut; room for more.

A run's folder may come from a stranger, so no file in it is written through a link: `no_link`.
"""

import errno
import os
import resource
from pathlib import Path

NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Numbers of errors of a disk, a quota or a limit that leaves a file no room."""


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's names, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def no_link(path: str, flags: int) -> int:
    """Open a file as the opener of `open`. Raises OSError for a link; waits for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def make_folder(path: Path, *, exist_ok: bool = False, mode: int = 0o777) -> None:
    """Create a folder with ``mode``, and those above it; flush each name. Raises OSError."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=mode, parents=True, exist_ok=exist_ok)
    for each in missing:
        sync(each.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Give a file a new content: it has the old one or the new one at any time. Raises OSError.

    A process that dies meanwhile may leave the new content under the name with `.new`.
    """
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(fresh, "xb", opener=no_link) as file:
        file.write(content)
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)


def room_bytes(file: Path) -> int:
    """Return by how much the file can grow within the disk's and the process's limits."""
    disk = os.statvfs(file)
    free = disk.f_bavail * disk.f_frsize
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return free if limit == resource.RLIM_INFINITY else min(free, limit - file.stat().st_size)

"""What the processes of a run leave to this user alone: their files, and no memory on disk.

The only place that sets a umask. Caches of environments, which programs in the sandbox read as
another user, set the modes of what they write themselves.
"""

import contextlib
import os
import resource
import stat
import sys
from collections.abc import Generator
from pathlib import Path

from coevolve.base.visible import as_visible
from protocols.errors import TransferError

UMASK = 0o077
FOLDER_MODE = 0o700


@contextlib.contextmanager
def private_files() -> Generator[None]:
    """Let this user alone access the files that the process creates in the block.

    Processes that are started in the block keep this for their whole life, and write no memory to
    disk if they crash: it may hold keys.
    """
    before = os.umask(UMASK)
    cores = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, cores[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, cores)
        os.umask(before)


def claim(folder: Path) -> None:
    """Create a folder under a name that others may know, in a folder that all users share.

    Raises TransferError if another user was faster, or if it cannot be created.
    """
    try:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise TransferError(
                f"{folder}: needs a folder of user {os.getuid()}, found one of user "
                f"{found.st_uid} or a link; remove it, and start again"
            )
        folder.chmod(FOLDER_MODE)
    except OSError as error:
        raise TransferError(f"{folder}: cannot be created: {error}") from error


def keep_private() -> None:
    """Do the same for the rest of this process's life, and make visible what it prints."""
    sys.stdout, sys.stderr = as_visible(sys.stdout), as_visible(sys.stderr)
    os.umask(UMASK)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

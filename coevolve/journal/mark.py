"""A small file beside the journal: how far the journal has come, and whether a writer is alive.

LMDB replaces the older of its two heads with each transaction. If the newest head is lost, the file
is whole and one transaction old, and nothing in it says so. The mark says which transaction was
answered last. The writer changes it by memory, without a call of the system, and never before the
transaction is as durable as the journal's level promises. So a mark may be behind its journal, and
never ahead of what was promised. A mark that is missing or broken says nothing.

The writer holds the mark's lock for as long as it lives. Who checks a file at rest shares the lock
meanwhile, so that no writer begins.
"""

import fcntl
import mmap
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from coevolve.journal.checksums import MASK, DamageError
from coevolve.journal.heads import Head

MARK_FILE = "journal.mark"
_MARK = struct.Struct("<QQ")


class Mark:
    """The writer's mark, with its lock."""

    def __init__(self, folder: Path) -> None:
        """Create or open the mark, and share its lock until `begin`."""
        self._file = _opened(folder / MARK_FILE)
        fcntl.flock(self._file, fcntl.LOCK_SH)
        self._map = mmap.mmap(self._file.fileno(), _MARK.size)

    def begin(self) -> None:
        """Hold the lock alone, once the checks of others have ended."""
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def write(self, transaction: int) -> None:
        _MARK.pack_into(self._map, 0, transaction, transaction ^ MASK)

    def close(self) -> None:
        """Let go of the lock. May be called again."""
        self._map.close()
        self._file.close()


@contextmanager
def at_rest(folder: Path) -> Generator[bool]:
    """Keep writers from beginning; yield False if one is alive."""
    try:
        file = (folder / MARK_FILE).open("rb")
    except OSError:  # a copy of a journal has no mark
        yield True
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def check_mark(folder: Path, head: Head) -> None:
    """Raise DamageError if the journal is behind its mark."""
    needed = marked(folder)
    if head.transaction < needed:
        raise DamageError(
            f"its newest transaction needs to be {needed} and is {head.transaction}, so the last "
            "ones are lost"
        )


def marked(folder: Path) -> int:
    """Return the newest transaction that was answered, or 0 if that is not known."""
    try:
        encoded = (folder / MARK_FILE).read_bytes()
        transaction, check = _MARK.unpack(encoded)
    except (OSError, struct.error):
        return 0
    return transaction if check == transaction ^ MASK else 0


def _opened(path: Path) -> IO[bytes]:
    path.touch()
    file = path.open("r+b", buffering=0)
    try:
        file.truncate(_MARK.size)
        # The kernel kills a process that writes into the map of a file for which there is no space.
        os.posix_fallocate(file.fileno(), 0, _MARK.size)
    except OSError:
        file.close()
        raise
    return file

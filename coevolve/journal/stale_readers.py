"""Takes the snapshots of stopped processes away, which would make the journal's file grow.

LMDB uses no page again that some reader may still see. A process that is stopped (SIGSTOP, Ctrl-Z)
while it reads would keep all pages from then on. `StaleReaders` ends its snapshot in LMDB's table
of readers, which the file `lock.mdb` holds. When the process goes on, what it reads may be wrong,
so `refuse_evicted` refuses it. A reader that works is left alone, however long it takes.

The table's rows have 64 bytes each: transaction, process, thread. LMDB holds POSIX locks on this
file, which end when the process closes any handle of it. Without them, another process takes the
table for abandoned and begins a new one. So the handle stays open for as long as the environment.
"""

import mmap
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import lmdb
import structlog

from coevolve.base.durable_files import NO_SPACE
from coevolve.journal.layout import DATA_FILE, MAX_READERS
from protocols.errors import JournalError

STALE_S = 30.0
"""Time for which a process has to be stopped with the same snapshot."""

LOCK_TABLE = "lock.mdb"

TABLE_BYTES = 64 * MAX_READERS + 128
"""Size of LMDB's table of readers."""

_ROW = struct.Struct("<QI")
_ROW_BYTES = 64
_FIRST_ROW = 128
_BLOCK_BYTES = 512
"""Unit in which the system counts a file's place on the disk."""

_NO_TRANSACTION = (1 << 64) - 1

log = structlog.get_logger()

Snapshots = dict[tuple[int, int, int], float]
"""Since when a snapshot (row, process, transaction) belongs to a stopped process."""


def reserve_table(folder: Path) -> None:
    """Give the table of readers its place on the disk, before LMDB maps it.

    LMDB writes into the map of a file without content. On a full disk the kernel kills a process
    that does so (SIGBUS). A table that has its place is not opened, because closing it would end
    LMDB's locks if this process has it open.

    Raises OSError if there is no space. Other errors are LMDB's to report.
    """
    file = folder / LOCK_TABLE
    try:
        if not file.exists() or file.stat().st_blocks * _BLOCK_BYTES < TABLE_BYTES:
            with file.open("ab") as table:
                os.posix_fallocate(table.fileno(), 0, TABLE_BYTES)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise


class StaleReaders:
    """The stopped readers of one journal; call `evict` every few seconds."""

    def __init__(self, folder: Path) -> None:
        """Follow the journal in ``folder``, which this process writes and has open."""
        self._file = (folder / LOCK_TABLE).open("r+b")
        self._table = mmap.mmap(self._file.fileno(), 0)
        self._data = str((folder / DATA_FILE).resolve())
        self._since: Snapshots = {}

    def evict(self, now_s: float) -> int:
        """End the snapshots of processes that were stopped `STALE_S` ago; return their number."""
        stopped = {each: self._since.get(each, now_s) for each in self._stopped()}
        stale = [each for each, since_s in stopped.items() if now_s - since_s >= STALE_S]
        self._since = {each: stopped[each] for each in stopped if each not in stale}
        return sum(self._evict(*each) for each in stale)

    def close(self) -> None:
        """Close the table; call it after the environment is closed."""
        self._table.close()
        self._file.close()

    def _stopped(self) -> Iterator[tuple[int, int, int]]:
        for at in range(_FIRST_ROW, len(self._table), _ROW_BYTES):
            transaction, process = _ROW.unpack_from(self._table, at)
            if process and transaction != _NO_TRANSACTION and self._is_stopped(process):
                yield at, process, transaction

    def _evict(self, at: int, process: int, transaction: int) -> bool:
        if _ROW.unpack_from(self._table, at) != (transaction, process):
            return False
        _ROW.pack_into(self._table, at, _NO_TRANSACTION, process)
        if not self._is_stopped(process):
            # It may have begun another snapshot in this instant, which is now without protection.
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        log.warning("stopped_reader_evicted", process=process)
        return True

    def _is_stopped(self, process: int) -> bool:
        """Return whether it is a stopped process that has mapped this journal."""
        try:
            status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
            if status.rpartition(") ")[2][:1] not in ("T", "t"):
                return False
            return self._data in Path(f"/proc/{process}/maps").read_text(encoding="utf-8")
        except OSError:
            return False


def refuse_evicted(env: lmdb.Environment, transaction: int) -> None:
    """Raise JournalError if this process's snapshot was ended by `StaleReaders`."""
    rows = [line.split() for line in env.readers().splitlines()]
    if not any(row[0] == str(os.getpid()) and row[-1] == str(transaction) for row in rows):
        raise JournalError(
            "this process was stopped while it read the journal, which has used the pages again "
            "since; read again"
        )

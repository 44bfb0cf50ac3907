"""Keeps one state of the journal entirely on the disk, without making any commit wait for it.

LMDB changes no page of the state that its oldest reader sees. A `SyncPoint` is such a reader. A
second after the first commit since the last flush, its thread takes the present state, flushes the
file, writes the state's meta page to the file `synced`, and lets the state before go. After a power
cut `coevolve.journal.synced_file` returns to the last of these states. So a power cut undoes what
was committed since the last flush began, and nothing else; the price is that pages of the last
seconds are not used again at once. So the file holds more pages than are in use. If these are more
than `SLACK_BYTES`, the writer flushes before it goes on.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import lmdb

from coevolve.base.durable_files import sync
from coevolve.journal.heads import USED_BYTES, head_of
from coevolve.journal.layout import DATA_FILE, Tables
from coevolve.journal.synced_file import (
    SLOT_BYTES,
    SLOTS,
    SYNCED_FILE,
    Synced,
    pack_slot,
    read_synced,
)
from protocols.errors import JournalError

SYNC_S = 1.0
"""Pause between two flushes while records are written."""

SLACK_BYTES = 512 << 20
"""Bytes of the file that may not be in use before the writer waits for a flush."""

LOOKS = 64
"""When about this part of the slack was written, the writer looks how far the file has grown. This
also bounds how often it flushes: if free pages are too scattered for large records, or another
reader holds them, each commit makes the file grow."""

COMMIT_BYTES = 64 << 10
"""What a commit writes beside the records, at most if its records are few."""

PAGES = ("branch_pages", "leaf_pages", "overflow_pages")
"""Names of the kinds of pages in LMDB's statistics."""


class Held(NamedTuple):
    """A state that LMDB preserves for as long as the transaction is open."""

    txn: "lmdb.Transaction[bytes]"
    meta: bytes


def hold(env: lmdb.Environment, folder: Path) -> Held:
    """Hold the present state. Call this only while nothing is written."""
    txn = env.begin()
    with (folder / DATA_FILE).open("rb") as stream:
        first = stream.read(USED_BYTES)
        stream.seek(head_of(first).page_bytes)
        second = stream.read(USED_BYTES)
    return Held(txn, max(first, second, key=lambda page: head_of(page).transaction))


class SyncPoint:
    """Follows one journal at level ``process``, in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        env: lmdb.Environment,
        tables: Tables,
        *,
        boot: str,
        pause_s: float,
        slack_bytes: int,
        held: Callable[[], "Future[Held]"],
        committed: threading.Event,
        failed: Callable[[lmdb.Error], None],
    ) -> None:
        """Put the present state on the disk, before anything is written, and begin to follow.

        ``held`` holds the state between two commits. Each commit sets ``committed``. ``failed`` is
        told of a flush that failed, because the pages on the disk are unknown then. Raises OSError
        or `lmdb.Error`.
        """
        self._folder = folder
        self._env = env
        self._tables = tables
        self._page_bytes = env.stat()["psize"]
        self._boot = boot
        self._pause_s = pause_s
        self._slack_bytes = slack_bytes
        self._held = held
        self._committed = committed
        self._failed = failed
        self._ending = threading.Event()
        before = read_synced(folder)
        self._number = before.number if before else 0
        self._file = os.open(folder / SYNCED_FILE, os.O_RDWR | os.O_CREAT | os.O_DSYNC, 0o600)
        self._state: Held | None = None
        self._moving = threading.Lock()
        self._written_bytes = 0
        """About what was written since `bound` looked at the file."""

        self._pages = 0
        """Pages of the file at the last flush."""

        self._move(hold(env, folder))
        sync(folder)
        self._thread = threading.Thread(target=self._follow, name="sync", daemon=True)
        self._thread.start()

    def stop(self, *, flush: bool) -> None:
        """End, after a last flush if wanted. Nothing may be written any more."""
        self._ending.set()
        self._committed.set()
        self._thread.join()
        if flush:
            self._try_to_move(hold(self._env, self._folder))
        if self._state is not None:
            self._state.txn.abort()
        os.close(self._file)

    def bound(self, size_bytes: int) -> None:
        """Flush if the file grew by pages that are not in use.

        The writer calls it after commits, with the size of what they added. It may wait for the
        flush in progress.
        """
        self._written_bytes += size_bytes + COMMIT_BYTES
        if self._written_bytes < self._slack_bytes // LOOKS:
            return
        self._written_bytes = 0
        pages: int = self._env.info()["last_pgno"]
        if pages == self._pages:
            return
        if (pages - self._used_pages()) * self._page_bytes > self._slack_bytes:
            with suppress(lmdb.Error, OSError):  # the next look tries again
                self._try_to_move(hold(self._env, self._folder))

    def _used_pages(self) -> int:
        with self._env.begin() as txn:
            stats = [txn.stat(table) for table in self._tables]
        return sum(stat[kind] for stat in stats for kind in PAGES)

    def _follow(self) -> None:
        while True:
            self._committed.wait()
            if self._ending.wait(self._pause_s):
                return
            self._committed.clear()
            try:
                held = self._held().result()
            except JournalError:  # the journal has stopped, and says so itself
                return
            except (
                lmdb.Error,
                OSError,
            ):  # no row for readers or no file is free
                self._committed.set()
                continue
            self._try_to_move(held)

    def _try_to_move(self, held: Held) -> None:
        """Go on to a state. A full disk leaves the one before, until there is room."""
        with self._moving:
            try:
                self._move(held)
            except lmdb.Error as error:
                held.txn.abort()
                self._failed(error)
            except OSError:
                held.txn.abort()
                self._committed.set()

    def _move(self, held: Held) -> None:
        before = self._state
        if before is not None and held.txn.id() <= before.txn.id():
            held.txn.abort()
            return
        self._pages = self._env.info()["last_pgno"]
        self._env.sync(True)
        slot = pack_slot(Synced(self._number + 1, self._boot, held.meta))
        os.pwrite(self._file, slot, (self._number + 1) % SLOTS * SLOT_BYTES)
        self._number += 1
        self._state = held
        if before is not None:
            before.txn.abort()

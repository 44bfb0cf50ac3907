"""The durable journal: one writer, group commit, exactly-once effects.

Guarantees:

- Sequences are global, without gaps and counted from 1, in commit order.
- The journal answers a write when it is as durable as the journal's level requires
  (`protocols.journal`). `take`, `newest` and `snapshot` show no record before that. A write is
  stored completely or not at all.
- Each (producer, counter) is executed once, so a producer may repeat a write until it is answered.
- Each consumer finishes each record at most once, together with the outputs.
- Retention (``retain_bytes`` of the ``evictable`` topics) deletes the oldest records first, then
  those of other topics that nothing needs any more, but for the newest ``retain_records`` of each
  (`coevolve.journal.retention`). It deletes no
  record that a consumer of the topic has not finished. If a consumer stops for good, its backlog
  stays and the file grows. Of the snapshots of a part it keeps the newest two.
- A refused write, a full disk and a full map change nothing; the journal continues when there is
  space again. After any other disk failure it stops, because a page that the kernel once failed to
  write may be lost although the next flush succeeds.

Implementation: callers put requests into a queue and get futures. One thread owns everything else.
It executes all requests that arrived during the last commit (no timer) as the next transaction, so
a slow disk makes larger transactions. At level ``power``, LMDB flushes the meta page of a
transaction only with the next transaction. A transaction is therefore answered when the next one is
on disk, or after an explicit flush if no request waits. Under load this takes one flush per
transaction instead of two.

At level ``process`` a thread beside the commits flushes once a second, and a power cut undoes what
came after the last flush (`coevolve.journal.sync_point`). A commit waits for a flush only if the
file would otherwise grow by more pages than may be out of use.

Readers of the map (`coevolve.journal.reader`): at level ``power`` they may see the newest
transaction one flush before it is answered. Only a power cut can undo it, and a power cut also ends
these readers, because they run on the writer's machine.
"""

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import lmdb

from coevolve.base.durable_files import make_folder, sync
from coevolve.journal.committer import Committer, Count, Hold, Listener, Taken, Work
from coevolve.journal.layout import DATA_FILE, encode_name, pack_record
from coevolve.journal.opening import (
    OpenedJournal,
    WrittenJournal,
    lock_folder,
    open_for_writing,
)
from coevolve.journal.queries import Snapshot, snapshot
from coevolve.journal.retention import EVICTABLE, SPENT, SPENT_KEPT, Needs, Retention
from coevolve.journal.sync_point import SLACK_BYTES, SYNC_S, Held, SyncPoint
from coevolve.journal.synced_file import this_boot
from protocols.errors import JournalError, RefusedError
from protocols.journal import Append, Complete, Durability, JournalStatistics, Record, Take

MAX_REQUEST_BYTES = 256 << 20
"""LMDB aborts a transaction at 512 MB of changed pages."""


class Journal:
    """The only writer of a journal; create one with `open`. All methods are thread-safe."""

    def __init__(
        self,
        folder: Path,
        lock: IO[str],
        written: WrittenJournal,
        committer: Committer,
        sync_point: SyncPoint | None,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._env, self._tables = written.opened
        self._mark = written.mark
        self._committer = committer
        self._sync_point = sync_point
        self._closing = threading.Lock()

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        durability: Durability = "process",
        map_size_bytes: int = 1 << 40,
        retain_bytes: int = 32 << 30,
        evictable: Sequence[str] = EVICTABLE,
        spent: Mapping[str, Needs] = SPENT,
        retain_records: int = SPENT_KEPT,
        clock: Callable[[], float] = time.monotonic,
        clock_ns: Callable[[], int] = time.time_ns,
        sync_s: float = SYNC_S,
        slack_bytes: int = SLACK_BYTES,
        boot: str | None = None,
        broken: Callable[[JournalError], None] = lambda _: None,
    ) -> "Journal":
        """Open or create the journal in ``folder``.

        ``sync_s`` is the pause between flushes at level ``process``; a growing file with more than
        ``slack_bytes`` of pages out of use is flushed at once. ``boot`` names this start of the
        machine; None is the real one. ``broken`` is called in the journal's thread when an
        unexpected exception has stopped it, before the requests in hand are refused.
        Raises JournalLockedError, JournalFormatError, JournalDamagedError or JournalError.
        """
        boot = this_boot() if boot is None else boot
        lock = lock_folder(folder, boot)
        try:
            written = open_for_writing(folder, durability, map_size_bytes)
        except BaseException:
            lock.close()
            raise
        committer = Committer(
            folder,
            written,
            pipelined=durability == "power",
            retention=Retention(retain_bytes, tuple(evictable), spent, retain_records),
            clock=clock,
            clock_ns=clock_ns,
            broken=broken,
        )
        try:
            sync_point = (
                _sync_point(folder, written.opened, committer, boot, sync_s, slack_bytes)
                if durability == "process"
                else None
            )
        except BaseException:
            committer.stop()
            written.opened.env.close()
            committer.release()
            written.mark.close()
            lock.close()
            raise
        return cls(folder, lock, written, committer, sync_point)

    def append(self, request: Append) -> "Future[tuple[int, ...]]":
        """Add records; the future gives their sequences or raises JournalFullError."""
        encode_name(request.receipt.producer)
        return self._submit(_work(request, request.records))

    def complete(self, request: Complete) -> "Future[tuple[int, ...]]":
        """Finish records, add outputs; the future gives the sequences or raises LeaseLostError."""
        for name in (request.receipt.producer, request.consumer, request.member):
            encode_name(name)
        return self._submit(_work(request, request.outputs))

    def take(self, request: Take) -> "Future[Taken]":
        """Lease available records at once; only the journal's front ends handle ``wait_s``."""
        for name in (request.consumer, request.member, *request.topics):
            encode_name(name)
        return self._submit(Work(request, Future()))

    def statistics(self) -> "Future[JournalStatistics]":
        return self._submit(Work(Count(), Future()))

    def newest(self, topics: Sequence[str]) -> int:
        """Return the newest visible sequence among ``topics`` (of all if empty), or 0."""
        return self._committer.newest(topics)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with the topics that got new records or released ones.

        The committer's thread calls it, so it must return at once.
        """
        self._committer.listeners.append(listener)

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Open a consistent snapshot of all visible records."""
        return snapshot(self._env, self._tables, self._committer.visible)

    def checkpoint(self, folder: Path) -> None:
        """Copy the journal into the new ``folder`` during operation; return when it is on disk.

        The copy may contain one transaction that is not visible yet.
        """
        if folder.exists():
            raise JournalError(
                f"a checkpoint needs a new folder, and {folder} exists; name another"
            )
        partial = folder.with_name(f"{folder.name}.partial-{uuid.uuid4().hex}")
        try:
            make_folder(partial)
            self._env.copy(str(partial), compact=False)
            sync(partial / DATA_FILE)
            sync(partial)
            partial.rename(folder)
            sync(folder.parent)
        except (OSError, lmdb.Error) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise JournalError(
                f"the checkpoint {folder} was not made: {error}. The journal itself is intact; "
                "free space and try again"
            ) from error

    def close(self) -> None:
        """Answer all requests so far, then close the folder. May be called again."""
        with self._closing:
            self._committer.stop()
            if self._sync_point is not None:
                self._sync_point.stop(flush=not self._committer.has_failed)
                self._sync_point = None
            self._env.close()
            self._committer.release()
            self._mark.close()
            self._lock.close()

    def _submit(self, work: Work) -> "Future[Any]":
        self._committer.submit(work)
        return work.answer


def _sync_point(
    folder: Path,
    opened: OpenedJournal,
    committer: Committer,
    boot: str,
    sync_s: float,
    slack_bytes: int,
) -> SyncPoint:
    """Put the opened journal on the disk, and follow it from there. Raises JournalError."""

    def held() -> "Future[Held]":
        work = Work(Hold(), Future())
        committer.submit(work)
        return work.answer

    try:
        point = SyncPoint(
            folder,
            *opened,
            boot=boot,
            pause_s=sync_s,
            slack_bytes=slack_bytes,
            held=held,
            committed=committer.committed,
            failed=committer.fail,
        )
    except (OSError, lmdb.Error) as error:
        raise JournalError(
            f"the journal {folder} needs to be written to the disk before it is used, and got "
            f"{error}; free space or check the disk"
        ) from error
    committer.bound = point.bound
    return point


def _work(request: Append | Complete, records: Sequence[Record]) -> Work:
    size_bytes = sum([len(record.body) for record in records])
    if size_bytes > MAX_REQUEST_BYTES:
        raise RefusedError(
            f"one write may hold up to {MAX_REQUEST_BYTES} bytes of records and got {size_bytes}; "
            "store large data in files and record their paths, or split the write"
        )
    return Work(request, Future(), tuple([pack_record(record) for record in records]), size_bytes)

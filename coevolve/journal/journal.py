"""The durable journal: one writer, group commit, exactly-once effects.

What is promised:

- Sequences are global, gapless and counted from 1, in commit order.
- A write is answered when it is as durable as the journal's level says (`protocols.journal`), and
  `take`, `newest` and `snapshot` show no record before that. All of a write is kept or nothing.
- Each (producer, counter) is carried out once, so a write may be repeated until it is answered.
- Each record is finished at most once by each consumer, together with what came of it.
- Retention (``retain_bytes`` of the ``evictable`` topics) deletes the oldest records first, and
  none that a consumer which ever took from the topic has still to finish: a consumer that stopped
  for good keeps its backlog, and the file grows.
- A refused write, a full disk and a full map change nothing; the journal goes on when there is
  room again. After any other failure of the disk it stops, because a page that the kernel failed
  to write once may be lost although the next flush succeeds.

How: callers put requests into a queue and get futures. One thread owns everything else. It takes
whatever arrived during the last commit (no timer) as the next transaction, so a slow disk makes
larger transactions. At level ``power`` LMDB's meta page is not flushed with its own transaction
but with the next one; a transaction is therefore answered when the next one is on disk, or after
an explicit flush when no request waits: one flush a transaction under load instead of two.

What readers of the map see (`coevolve.journal.reader`): at level ``power`` they may see the newest
transaction one flush before it is answered. Only a power cut can take it back, and that ends those
readers, too, because they run on the writer's machine.
"""

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import lmdb

from coevolve.journal.committer import Committer, Count, Listener, Taken, Work
from coevolve.journal.layout import DATA_FILE, encode_name, pack_record
from coevolve.journal.opening import OpenedJournal, lock_folder, open_for_writing, sync_folder
from coevolve.journal.queries import Snapshot, snapshot
from protocols.errors import JournalError
from protocols.journal import Append, Complete, Durability, JournalStatistics, Record, Take

MAX_REQUEST_BYTES = 256 << 20
"""LMDB ends a transaction at 512 MB of changed pages."""

EVICTABLE = ("rollout", "failed_rollout")
"""Topics that retention may shorten."""


class Journal:
    """The only writer of a journal; `open` makes one. Any thread may call every method."""

    def __init__(self, folder: Path, lock: IO[str], opened: OpenedJournal, committer: Committer):
        self._folder = folder
        self._lock = lock
        self._env, self._tables = opened
        self._committer = committer
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
        clock: Callable[[], float] = time.monotonic,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> "Journal":
        """Open or create the journal in ``folder``.

        Raises JournalLockedError, JournalFormatError, JournalError.
        """
        lock = lock_folder(folder)
        try:
            opened = open_for_writing(folder, durability, map_size_bytes)
        except BaseException:
            lock.close()
            raise
        committer = Committer(
            folder,
            opened,
            pipelined=durability == "power",
            retain_bytes=retain_bytes,
            evictable=tuple(evictable),
            clock=clock,
            clock_ns=clock_ns,
        )
        return cls(folder, lock, opened, committer)

    def append(self, request: Append) -> "Future[tuple[int, ...]]":
        """Add records; the answer is their sequences, or JournalFullError."""
        encode_name(request.receipt.producer)
        return self._submit(_work(request, request.records))

    def complete(self, request: Complete) -> "Future[tuple[int, ...]]":
        """Finish records and add the outputs; the answer is their sequences, or LeaseLostError."""
        for name in (request.receipt.producer, request.consumer, request.member):
            encode_name(name)
        return self._submit(_work(request, request.outputs))

    def take(self, request: Take) -> "Future[Taken]":
        """Lease records without waiting for any: ``wait_s`` is for the fronts of the journal."""
        for name in (request.consumer, request.member, *request.topics):
            encode_name(name)
        return self._submit(Work(request, Future()))

    def statistics(self) -> "Future[JournalStatistics]":
        """Count what the journal holds."""
        return self._submit(Work(Count(), Future()))

    def newest(self, topics: Sequence[str]) -> int:
        """Return the newest visible sequence among ``topics`` (of all where empty), or 0."""
        return self._committer.newest(topics)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with the topics in which records appeared or became free again.

        It is called by the committer's thread and has to return at once.
        """
        self._committer.listeners.append(listener)

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Open one consistent state of everything that is visible."""
        return snapshot(self._env, self._tables, self._committer.visible)

    def checkpoint(self, folder: Path) -> None:
        """Copy the journal into the new ``folder`` while it goes on; return when it is on disk.

        The copy may hold one transaction more than is visible.
        """
        if folder.exists():
            raise JournalError(
                f"a checkpoint needs a new folder, and {folder} exists; name another"
            )
        partial = folder.with_name(f"{folder.name}.partial-{uuid.uuid4().hex}")
        try:
            partial.mkdir(parents=True)
            self._env.copy(str(partial), compact=False)
            with (partial / DATA_FILE).open("rb") as copy:
                os.fsync(copy.fileno())
            sync_folder(partial)
            partial.rename(folder)
            sync_folder(folder)
        except (OSError, lmdb.Error) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise JournalError(
                f"the checkpoint {folder} was not made: {error}; the journal itself is unharmed: "
                "make room and try again"
            ) from error

    def close(self) -> None:
        """Answer everything asked so far, then let go of the folder. May be called again."""
        with self._closing:
            self._committer.stop()
            self._env.close()
            self._lock.close()

    def _submit(self, work: Work) -> "Future[Any]":
        self._committer.submit(work)
        return work.answer


def _work(request: Append | Complete, records: Sequence[Record]) -> Work:
    size_bytes = sum([len(record.body) for record in records])
    if size_bytes > MAX_REQUEST_BYTES:
        raise JournalError(
            f"one write holds up to {MAX_REQUEST_BYTES} bytes of records and got {size_bytes}; "
            "write large blobs to files and register those, or split the write"
        )
    return Work(request, Future(), tuple([pack_record(record) for record in records]), size_bytes)

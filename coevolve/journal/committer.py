"""The thread that owns the journal's state: it commits groups, grants leases and answers."""

import errno
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgspec

from coevolve.base.durable_files import NO_SPACE, room_bytes
from coevolve.journal.checksums import DamageError
from coevolve.journal.consumers import lease
from coevolve.journal.damage import damaged, naming_damage
from coevolve.journal.layout import DATA_FILE, PackedRecord, topic_key
from coevolve.journal.opening import WrittenJournal
from coevolve.journal.queries import snapshot
from coevolve.journal.retention import Retention
from coevolve.journal.stale_readers import StaleReaders
from coevolve.journal.state import State
from coevolve.journal.sync_point import hold
from coevolve.journal.transaction import WriteTransaction
from protocols.errors import JournalError, JournalFullError
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take

MAX_TRANSACTION_RECORDS = 1000
MAX_TRANSACTION_BYTES = 16 << 20
"""Maximum size of a transaction; larger ones increase latency but not throughput."""

READER_CHECK_S = 5.0
"""Interval between searches for dead readers, which would make the file grow."""

_WRITES = (Append, Complete)
_SLACK_BYTES = 1 << 20

Listener = Callable[[frozenset[str]], None]


class Taken(NamedTuple):
    """The answer to a `Take`."""

    records: tuple[StoredRecord, ...]

    expires_s: float
    """Seconds until the next lease on the requested topics may expire; infinity if there is
    none."""


class Count(NamedTuple):
    """A request for statistics."""


class Hold(NamedTuple):
    """A request to hold the present state (`coevolve.journal.sync_point`)."""


class Stop(NamedTuple):
    """A request to end the thread after all earlier requests are answered."""


class Work(msgspec.Struct, frozen=True):
    """A request and the future for its answer."""

    request: Append | Complete | Take | Count | Hold | Stop
    answer: "Future[Any]"
    records: tuple[PackedRecord, ...] = ()
    size_bytes: int = 0
    """Size of the records' bodies."""


class Reply(msgspec.Struct, frozen=True):
    """An answer to send when its transaction is durable."""

    answer: "Future[Any]"
    sequences: tuple[int, ...]


class Committer:
    """Executes requests in transactions, in the order of arrival."""

    def __init__(
        self,
        folder: Path,
        written: WrittenJournal,
        *,
        pipelined: bool,
        retention: Retention,
        clock: Callable[[], float],
        clock_ns: Callable[[], int],
        broken: Callable[[JournalError], None],
    ) -> None:
        """``broken`` is called in the thread when an unexpected exception ends it."""
        self._folder = folder
        self._file = folder / DATA_FILE
        self._env, self._tables = written.opened
        self._mark = written.mark
        self._unmarked: int = self._env.info()["last_txnid"]
        self._mark.write(self._unmarked)
        self._pipelined = pipelined
        self._retention = retention
        self._clock = clock
        self._clock_ns = clock_ns
        self._broken = broken
        self._requests: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._unflushed: list[Reply] = []
        self._unflushed_newest: dict[str, int] = {}
        self._batch: list[Work] = []
        self._commits = self._flushes = self._readers_cleared = 0
        self._readers_checked_s = clock()
        self._stale_readers = StaleReaders(folder)
        self._failure: JournalError | None = None
        self._ended = threading.Event()
        self._state = State()
        self._batch_bytes = 0
        """Size of the bodies of `_batch`."""

        self.bound: Callable[[int], None] = lambda _: None
        """Bounds the file; called after each commit with the size of its records."""

        self.listeners: list[Listener] = []
        self.committed = threading.Event()
        """Set by each commit."""

        with naming_damage(self._file), self._env.begin() as txn:
            self._state.reload(txn, self._tables)
        self.visible = self._state.last
        with snapshot(self._env, self._tables, self.visible) as state:
            self._newest = {topic: state.newest(topic) for topic in self._state.totals}
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> None:
        """Queue a request; it is answered even if the thread has ended."""
        self._requests.put(work)
        if self._ended.is_set():
            self._refuse_waiting()

    def stop(self) -> None:
        """Answer all requests so far and end the thread."""
        self._requests.put(Work(Stop(), Future()))
        self._thread.join()

    def release(self) -> None:
        """Close what belongs to the environment; call it after that is closed."""
        self._stale_readers.close()

    def fail(self, cause: lmdb.Error) -> None:
        """Stop after a flush beside the commits has failed."""
        self._failure = JournalError(
            f"the journal {self._file} stopped: the disk did not take what was written: {cause}; "
            "a power cut would undo the newest records. Check the disk, then continue the run with "
            "`coevolve resume NAME`"
        )
        self._requests.put(Work(Stop(), Future()))

    @property
    def has_failed(self) -> bool:
        """Whether a failure stopped the thread."""
        return self._failure is not None

    def newest(self, topics: Sequence[str]) -> int:
        """Return the newest visible sequence among ``topics`` (of all if empty), or 0."""
        if not topics:
            return self.visible
        return max(self._newest.get(topic, 0) for topic in topics)

    def _run(self) -> None:
        try:
            running = True
            while running and self._failure is None:
                self._batch, running = self._next_batch()
                self._execute_batch(self._batch)
            if self._failure is None:
                self._flush()
        except JournalError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - the boundary round the thread
            self._break(error)
        finally:
            self._ended.set()
            self._refuse([*self._unflushed, *self._batch])
            self._refuse_waiting()

    def _break(self, cause: Exception) -> None:
        failure = JournalError(
            f"the journal {self._file} stopped: {type(cause).__name__}: {cause}; all answered "
            "writes are safe. Check the disk, then continue the run with `coevolve resume NAME`"
        )
        failure.__cause__ = cause
        self._failure = self._failure or failure
        self._broken(failure)

    def _next_batch(self) -> tuple[list[Work], bool]:
        """Return the requests since the last call, and whether the thread should continue."""
        batch: list[Work] = []
        records = size_bytes = 0
        work = self._first()
        while True:
            if isinstance(work.request, Stop):
                return batch, False
            if work.answer.set_running_or_notify_cancel():
                batch.append(work)
                records += len(work.records)
                size_bytes += work.size_bytes
            self._batch_bytes = size_bytes
            if records >= MAX_TRANSACTION_RECORDS or size_bytes >= MAX_TRANSACTION_BYTES:
                return batch, True
            if self._requests.empty():
                return batch, True
            work = self._requests.get()

    def _first(self) -> Work:
        if self._requests.empty():
            self._flush()
        return self._requests.get()

    def _execute_batch(self, batch: list[Work]) -> None:
        writes = [work for work in batch if self._writes(work.request)]
        if writes:
            self._write(writes)
        else:
            self._flush()
        for work in batch:
            if work.answer.done():
                continue
            match work.request:
                case Take():
                    self._answer_take(work.request, work.answer)
                case Count():
                    work.answer.set_result(self._statistics())
                case Hold():
                    self._answer_hold(work.answer)
                case _:
                    pass

    def _writes(self, request: Append | Complete | Take | Count | Hold | Stop) -> bool:
        if not isinstance(request, Take):
            return isinstance(request, _WRITES)
        consumer = self._state.consumer(request.consumer)
        sits = consumer.seats.get(request.member, [])[-1:] == [request.incarnation]
        return not sits or any(topic not in consumer.places for topic in request.topics)

    def _write(self, batch: list[Work]) -> None:
        """Execute a batch in one transaction; answer it when the transaction is durable."""
        replies: list[Reply] = []
        refusals: list[tuple[Work, JournalError]] = []
        now_s = self._clock()
        try:
            with self._env.begin(write=True) as txn:
                write = WriteTransaction(
                    txn, self._tables, self._state, time_ns=self._clock_ns(), now_s=now_s
                )
                for work in batch:
                    try:
                        sequences = _execute(write, work)
                    except JournalError as error:
                        refusals.append((work, error))
                    else:
                        if sequences is not None:
                            replies.append(Reply(work.answer, sequences))
                write.finish(self._retention)
        except lmdb.Error as error:
            self._abort(batch, error)
            return
        except JournalError as error:
            self._failure = self._named(error)
            return
        for work, error in refusals:
            work.answer.set_exception(self._named(error))
        self._after_commit(write, replies)
        self._clear_dead_readers(now_s)

    def _named(self, error: JournalError) -> JournalError:
        """Return the error; one for damage names the file and the remedy."""
        return damaged(self._file, str(error)) if isinstance(error, DamageError) else error

    def _after_commit(self, write: WriteTransaction, replies: list[Reply]) -> None:
        if write.wrote:
            self._commits += 1
            if not self.committed.is_set():
                self.committed.set()
            if self._pipelined:
                self._flushes += 1
                self._acknowledge()
            self._unmarked = write.transaction
            self.bound(self._batch_bytes)
        self._unflushed.extend(replies)
        self._unflushed_newest.update(write.appended)
        if write.released:
            self._notify(write.released)
        if not self._pipelined:
            self._acknowledge()
        elif replies and not write.wrote:
            self._flush()

    def _flush(self) -> None:
        """Make all commits durable and answer their requests."""
        if not self._unflushed:
            return
        try:
            self._env.sync(True)
        except lmdb.Error as error:
            self._fail(error)
            return
        self._flushes += 1
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Answer durable requests and make their records visible."""
        self._mark.write(self._unmarked)
        replies, self._unflushed = self._unflushed, []
        newest, self._unflushed_newest = self._unflushed_newest, {}
        self._newest.update(newest)
        self.visible = max(self.visible, *newest.values(), 0)
        for reply in replies:
            reply.answer.set_result(reply.sequences)
        if newest:
            self._notify(newest)

    def _notify(self, topics: Iterable[str]) -> None:
        if self.listeners:
            news = frozenset(topics)
            for listener in self.listeners:
                listener(news)

    def _answer_take(self, request: Take, answer: "Future[Any]") -> None:
        consumer = self._state.consumer(request.consumer)
        try:
            consumer.refuse_the_displaced(request.member, request.incarnation)
        except JournalError as error:
            answer.set_exception(error)
            return
        now_s = self._clock()
        try:
            with snapshot(self._env, self._tables, self.visible) as state:
                leased, freed = lease(consumer, request, state, now_s)
                entries = {topic: topic_key(topic) for topic in request.topics}
                records = tuple([state.listed(entries[topic], seq) for seq, topic in leased])
        except JournalError as error:
            self._failure = error
            answer.set_exception(error)
            return
        answer.set_result(Taken(records, consumer.next_expiry_s(request.topics, now_s)))
        if freed:
            self._notify(freed)

    def _answer_hold(self, answer: "Future[Any]") -> None:
        try:
            answer.set_result(hold(self._env, self._folder))
        except (lmdb.Error, OSError) as error:
            answer.set_exception(error)

    def _statistics(self) -> JournalStatistics:
        consumers = self._state.consumers
        leased = {name: len(consumer.leases) for name, consumer in consumers.items()}
        return JournalStatistics(
            last_sequence=self.visible,
            topics={topic: totals.kept for topic, totals in self._state.totals.items()},
            backlog={
                name: self._state.unfinished(consumer) - leased[name]
                for name, consumer in consumers.items()
            },
            leased=leased,
            size_bytes=self._file.stat().st_size,
            commits=self._commits,
            flushes=self._flushes,
            readers_cleared=self._readers_cleared,
        )

    def _clear_dead_readers(self, now_s: float) -> None:
        if now_s - self._readers_checked_s >= READER_CHECK_S:
            self._readers_checked_s = now_s
            self._readers_cleared += self._env.reader_check() + self._stale_readers.evict(now_s)

    def _abort(self, batch: list[Work], cause: lmdb.Error) -> None:
        """Answer a transaction that LMDB rolled back; continue only if space was lacking."""
        size_bytes = sum(work.size_bytes for work in batch)
        if not self._lacks_room(cause, size_bytes):
            self._fail(cause)
            self._refuse(batch)
            return
        with naming_damage(self._file), self._env.begin() as txn:
            self._state.reload(txn, self._tables)
        error = JournalFullError(
            f"the journal {self._file} needs space for {size_bytes} bytes of records and got "
            f"{cause}; it stored none of them. Free space on the disk (or raise "
            "store.map_size_gb, if the map is full) and repeat the write"
        )
        for work in batch:
            work.answer.set_exception(error)

    def _lacks_room(self, error: lmdb.Error, size_bytes: int) -> bool:
        """Return whether the disk, a quota or the map is full.

        LMDB reports EIO for an incomplete write, such as the last one on a disk that fills up.
        """
        if isinstance(error, lmdb.MapFullError | lmdb.DiskError) or error.code in NO_SPACE:
            return True
        return error.code == errno.EIO and room_bytes(self._file) < 2 * size_bytes + _SLACK_BYTES

    def _fail(self, cause: lmdb.Error) -> None:
        self._failure = JournalError(
            f"the journal {self._file} stopped: {cause}; all answered writes are safe. Check the "
            "disk, then continue the run with `coevolve resume NAME`"
        )

    def _refuse(self, waiting: Iterable[Work | Reply]) -> None:
        error = self._failure or JournalError(f"the journal {self._file} is closed; open it again")
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(error)

    def _refuse_waiting(self) -> None:
        """Answer requests that no thread will execute; both ends call this, so none remains."""
        while True:
            try:
                work = self._requests.get_nowait()
            except queue.Empty:
                return
            if work.answer.set_running_or_notify_cancel():
                self._refuse([work])


def _execute(write: WriteTransaction, work: Work) -> tuple[int, ...] | None:
    """Execute one request and return its answer; None for a take, which is answered later."""
    match work.request:
        case Append():
            return write.append(work.request, work.records)
        case Complete():
            return write.complete(work.request, work.records)
        case Take():
            write.sit(work.request)
            return None
        case _:
            return None

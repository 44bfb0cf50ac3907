"""Opens a journal's folder, and refuses to where that would do harm.

It refuses a second writer, another format version, a file that is not a journal, and a damaged
file; each message names the remedy. Who opens a file that no writer has open checks it first: its
pages before LMDB maps them, because LMDB's way through damaged pages can kill the process, and then
the keys of all tables. A reader beside a writer relies on the writer's check, and a process that
opens again what it has checked on its own.
"""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import lmdb

from coevolve.base.durable_files import NO_SPACE, make_folder, no_link, sync
from coevolve.journal.checksums import DamageError, row_check, seal
from coevolve.journal.contents import check_contents
from coevolve.journal.damage import damaged, naming_damage, not_a_journal
from coevolve.journal.heads import Head, read_head
from coevolve.journal.layout import (
    DATA_FILE,
    FORMAT,
    FORMAT_KEY,
    MAX_READERS,
    ROOT_KEY,
    Tables,
    open_file,
    open_tables,
)
from coevolve.journal.mark import MARK_FILE, Mark, at_rest, check_mark, marked
from coevolve.journal.pages import Pages
from coevolve.journal.root import MAIN, Root
from coevolve.journal.stale_readers import LOCK_TABLE, TABLE_BYTES, reserve_table
from coevolve.journal.synced_file import SYNCED_FILE, go_back, this_boot, was_cut
from protocols.errors import (
    JournalAccessError,
    JournalError,
    JournalFormatError,
    JournalFullError,
    JournalLockedError,
)
from protocols.journal import Durability

LOCK_FILE = "writer.lock"
READ_THREADS = 2
"""Threads of the writer's process that read for other processes."""

MAX_MAP_BYTES = 1 << 46

ROOM_BYTES = 1 << 40
"""Address space that a reader reserves. A later writer may have a larger map than the present one,
and LMDB enlarges no map without ending the open snapshots of its process."""

_FILES = frozenset((DATA_FILE, LOCK_TABLE, MARK_FILE, SYNCED_FILE, LOCK_FILE))

NEW_FOLDER = "new"
"""Where a journal is made, inside its folder."""


class State(NamedTuple):
    """What tells apart the states of a journal's file that no process writes."""

    device: int
    inode: int
    size_bytes: int
    changed_ns: int

    @classmethod
    def of(cls, file: Path) -> "State":
        """Return the present state of a file. Raises OSError."""
        found = file.stat()
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)


_whole: dict[Path, State] = {}
"""The states in which this process has found journals whole; a check reads every page."""


class OpenedJournal(NamedTuple):
    """An environment and its tables."""

    env: lmdb.Environment
    tables: Tables


class WrittenJournal(NamedTuple):
    """An opened journal and its writer's mark."""

    opened: OpenedJournal
    mark: Mark


def lock_folder(folder: Path, boot: str | None = None) -> IO[str]:
    """Make this process the folder's writer until the returned file is closed or the process dies.

    If the machine's power was cut since the last writer, the journal goes back to its last state
    that is whole. ``boot`` names the machine's start; None is the real one. Raises
    JournalLockedError if another process has the lock.
    """
    check_plain(folder)
    file = _lock(folder)
    try:
        go_back(folder, this_boot() if boot is None else boot)
    except BaseException:
        file.close()
        raise
    return file


def _lock(folder: Path) -> IO[str]:
    try:
        make_folder(folder, exist_ok=True)
        file = open(folder / LOCK_FILE, "a+", opener=no_link)  # noqa: SIM115 - the lock outlives this
    except OSError as error:
        raise JournalError(f"the journal {folder} needs a writable folder: {error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "of unknown id"
        file.close()
        raise JournalLockedError(
            f"the journal {folder} can have one writer, and process {owner} is writing it; "
            "stop that run, attach to it, or choose another run directory"
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def open_for_writing(folder: Path, durability: Durability, map_size_bytes: int) -> WrittenJournal:
    """Open or create the journal; the caller must hold the folder's lock.

    Raises JournalFormatError, JournalDamagedError, JournalFullError or JournalError.
    """
    file = folder / DATA_FILE
    fresh = _is_fresh(folder)
    with _translate_errors(folder):
        mark = Mark(folder)
    with _close_on_failure(mark):
        if fresh:
            with _translate_errors(folder):
                _create(folder, map_size_bytes)
        check_pages(file)
        with naming_damage(file), _translate_errors(folder):
            reserve_table(folder)
            env = open_file(
                folder,
                map_size=map_size_bytes,
                sync=durability == "power",
                metasync=False,
                max_readers=MAX_READERS,
                max_spare_txns=2 + READ_THREADS,  # for the committer and one event loop as well
            )
            with _close_on_failure(env):
                tables = _checked_tables(env, folder)
                mark.begin()
                env.reader_check()
                if durability == "power":
                    env.sync(True)
                    (folder / SYNCED_FILE).unlink(missing_ok=True)  # what follows is newer
                    sync(folder)
                return WrittenJournal(OpenedJournal(env, tables), mark)


def open_for_reading(folder: Path) -> OpenedJournal:
    """Open an existing journal read-only; a writer may be active or not.

    Raises JournalFormatError, JournalDamagedError or JournalError.
    """
    check_plain(folder)
    file = folder / DATA_FILE
    if _is_fresh(folder):
        raise JournalError(
            f"there is no journal at {folder}; start the run first and wait until it has begun, "
            f"or name the folder that contains {DATA_FILE}"
        )
    if was_cut(folder, this_boot()):
        lock_folder(folder).close()
    with at_rest(folder) as is_at_rest:
        state = State.of(file)
        checks = is_at_rest and _whole.get(file) != state
        if checks:
            check_pages(file)
        elif is_at_rest:
            _check_head(file)
        with naming_damage(file), _translate_errors(folder):
            env = _mapped(folder)
            with _close_on_failure(env):
                if not checks:
                    return OpenedJournal(env, open_tables(env))
                tables = _checked_tables(env, folder)
                _whole[file] = state
                return OpenedJournal(env, tables)


@contextmanager
def map_for_reading(folder: Path) -> Generator[OpenedJournal]:
    """Open a journal read-only whose pages LMDB can follow, and whose contents may be damaged."""
    with _translate_errors(folder):
        env = _mapped(folder)
    with env:
        yield OpenedJournal(env, open_tables(env))


def _mapped(folder: Path) -> lmdb.Environment:
    file = folder / DATA_FILE
    reserve_table(folder)
    needed = max(read_head(file).map_bytes, file.stat().st_size)
    try:
        return _mapped_within(folder, max(needed, ROOM_BYTES))
    except lmdb.MemoryError:  # the process may have little address space
        return _mapped_within(folder, needed)


def _mapped_within(folder: Path, map_size_bytes: int) -> lmdb.Environment:
    return open_file(
        folder,
        map_size=map_size_bytes,
        readonly=True,
        create=False,
        readahead=False,
        max_readers=MAX_READERS,
        max_spare_txns=1,
    )


def check_plain(folder: Path) -> None:
    """Refuse a folder, a pipe or a device in place of a file, which might never open; and any link.

    LMDB writes into its table of readers also to read, so a link there would let it write anywhere.
    What leads to the folder may be links. Raises JournalError.
    """
    remedy = "restore a copy of the run, or choose another run directory"
    if folder.is_symlink():
        raise JournalError(f"{folder}: needs to be a folder, found a link; {remedy}")
    if not folder.is_dir():
        return
    with _translate_errors(folder):
        entries = list(os.scandir(folder))
    for each in entries:
        if each.is_symlink() or (each.name in _FILES and not each.is_file()):
            raise JournalError(
                f"{each.path}: needs to be a plain file, found a link, a folder, a pipe or a "
                f"device; {remedy}"
            )


def check_pages(file: Path) -> None:
    """Refuse a file at rest that LMDB cannot follow, or that lacks its last transactions.

    Raises JournalFormatError if the file is no journal, and JournalDamagedError.
    """
    head = _check_head(file)
    with naming_damage(file):
        Pages(file, head).check()


def _check_head(file: Path) -> Head:
    """Return the head of a file at rest; refuse what `check_pages` refuses without its pages."""
    head = read_head(file)
    with naming_damage(file):
        check_mark(file.parent, head)
        if head.map_bytes > MAX_MAP_BYTES:
            raise DamageError(f"its map can have {MAX_MAP_BYTES} bytes and has {head.map_bytes}")
    return head


def _is_fresh(folder: Path) -> bool:
    """Return whether no transaction was ever written.

    Raises JournalDamagedError if one was, and the file is missing or empty.
    """
    file = folder / DATA_FILE
    fresh = not file.exists() or file.stat().st_size == 0 or read_head(file).transaction == 0
    if fresh and marked(folder):
        raise damaged(file, "it is missing or empty, and it had been written")
    return fresh


@contextmanager
def _translate_errors(folder: Path) -> Generator[None]:
    try:
        yield
    except (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError) as error:
        raise JournalFormatError(
            f"{folder / DATA_FILE} is not a file that LMDB 0.9 can read ({error}); restore a "
            "checkpoint of the journal, or choose another run directory"
        ) from error
    except (lmdb.MapFullError, lmdb.DiskError) as error:
        raise JournalFullError(
            f"the journal {folder} needs space for its first pages and got {error}; free space on "
            "the disk, or raise store.map_size_gb"
        ) from error
    except (lmdb.ReadonlyError, PermissionError) as error:
        raise JournalAccessError(
            f"the journal {folder} needs files that this user may read and write, because readers "
            f"enter themselves into {LOCK_TABLE}; found {error}; be the user who launched the run, "
            "or copy its folder"
        ) from error
    except UnicodeEncodeError as error:
        raise JournalAccessError(
            f"the journal {folder} needs a folder whose path is text in UTF-8, which LMDB's "
            "binding demands; move the run"
        ) from error
    except (lmdb.Error, OSError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise JournalFullError(
                f"the journal {folder} needs {TABLE_BYTES} bytes beside it, also to be read, and "
                f"got: {error.strerror}; free space on the disk"
            ) from error
        raise JournalError(
            f"the journal {folder} cannot be opened: {error}. A process may open it only once; the "
            "writer's process must read through its own journal object"
        ) from error


@contextmanager
def _close_on_failure(opened: lmdb.Environment | Mark) -> Generator[None]:
    try:
        yield
    except BaseException:
        opened.close()
        raise


def _create(folder: Path, map_size_bytes: int) -> None:
    """Make an empty journal beside its place, and move it there when it is on the disk."""
    new = folder / NEW_FOLDER
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    env = open_file(new, map_size=map_size_bytes, lock=False)
    with closing(env), env.begin(write=True) as txn:
        tables = open_tables(env, creating=txn)
        txn.put(FORMAT_KEY, str(FORMAT).encode(), db=tables.meta)
        root = Root().pack(txn.id())
        txn.put(ROOT_KEY, seal(row_check(MAIN, ROOT_KEY, root), root), db=tables.main)
    (new / DATA_FILE).rename(folder / DATA_FILE)
    shutil.rmtree(new)
    sync(folder)


def _checked_tables(env: lmdb.Environment, folder: Path) -> Tables:
    """Return the tables of a journal at rest whose pages are whole."""
    tables = open_tables(env)
    with env.begin() as txn:
        found = txn.get(FORMAT_KEY, db=tables.meta)
        if found is None:
            raise not_a_journal(folder / DATA_FILE)
        if found != str(FORMAT).encode():
            raise JournalFormatError(
                f"the journal {folder} needs format version {FORMAT} and has "
                f"{found.decode(errors='replace')}; open it with the version of coevolve that "
                "wrote it, or start a new run directory"
            )
        check_contents(txn, tables)
    return tables

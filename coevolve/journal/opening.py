"""Opens a journal's folder, and refuses to where that would do harm.

It refuses a second writer, another format version, a file that is not a journal, and a truncated
file; each message names the remedy. The check for truncation runs before the file is mapped,
because reading a mapped page beyond the end of a file kills the process.
"""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

import lmdb
import lmdb.verify

from coevolve.durable_files import make_folder, sync
from coevolve.journal.layout import (
    DATA_FILE,
    FORMAT,
    FORMAT_KEY,
    MAX_DBS,
    MAX_READERS,
    Tables,
    open_tables,
)
from coevolve.journal.meta_page import read_meta
from coevolve.journal.synced_file import SYNCED_FILE, go_back, this_boot, was_cut
from protocols.errors import (
    JournalError,
    JournalFormatError,
    JournalFullError,
    JournalLockedError,
)
from protocols.journal import Durability

LOCK_FILE = "writer.lock"
READ_THREADS = 2
"""Threads of the writer's process that read for other processes."""

VERIFY_TRIES = 3

NEW_FOLDER = "new"
"""Where a journal is made, inside its folder."""


class OpenedJournal(NamedTuple):
    """An environment and its tables."""

    env: lmdb.Environment
    tables: Tables


def lock_folder(folder: Path, boot: str | None = None) -> IO[str]:
    """Make this process the folder's writer until the returned file is closed or the process dies.

    If the machine's power was cut since the last writer, the journal goes back to its last state
    that is whole. ``boot`` names the machine's start; None is the real one. Raises
    JournalLockedError if another process has the lock.
    """
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
        file = (folder / LOCK_FILE).open("a+")
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


def open_for_writing(folder: Path, durability: Durability, map_size_bytes: int) -> OpenedJournal:
    """Open or create the journal; the caller must hold the folder's lock."""
    with _translate_errors(folder):
        if _is_fresh(folder / DATA_FILE):
            _create(folder, map_size_bytes)
        refuse_truncated(folder / DATA_FILE)
        env = lmdb.open(
            str(folder),
            map_size=map_size_bytes,
            sync=durability == "power",
            metasync=False,
            max_dbs=MAX_DBS,
            max_readers=MAX_READERS,
            max_spare_txns=2 + READ_THREADS,  # for the committer and one event loop as well
        )
        with _close_on_failure(env):
            _refuse_other_format(env, folder)
            tables = open_tables(env)
            env.reader_check()
            if durability == "power":
                env.sync(True)
                (folder / SYNCED_FILE).unlink(missing_ok=True)  # what follows is newer
                sync(folder)
            return OpenedJournal(env, tables)


def open_for_reading(folder: Path) -> OpenedJournal:
    """Open an existing journal read-only; a writer may be active or not."""
    file = folder / DATA_FILE
    if _is_fresh(file):
        raise JournalError(
            f"there is no journal at {folder}; start the run first and wait until it has begun, "
            f"or name the folder that contains {DATA_FILE}"
        )
    if was_cut(folder, this_boot()):
        lock_folder(folder).close()
    refuse_truncated(file)
    with _translate_errors(folder):
        env = lmdb.open(
            str(folder),
            map_size=max(read_meta(file).map_bytes, file.stat().st_size),
            readonly=True,
            create=False,
            readahead=False,
            max_dbs=MAX_DBS,
            max_readers=MAX_READERS,
            max_spare_txns=1,
        )
        with _close_on_failure(env):
            _refuse_other_format(env, folder)
            return OpenedJournal(env, open_tables(env))


def refuse_truncated(file: Path) -> None:
    """Raise JournalFormatError if pages that the journal needs lie beyond the file's end.

    A file may lack pages that were allocated and freed within one transaction and never written. A
    short file is therefore verified page by page (without mapping it) before it is refused.
    Verification beside an active writer can fail by chance, so it is repeated.
    """
    needed = found = 0
    for _ in range(VERIFY_TRIES):
        meta = read_meta(file)
        needed = (meta.last_page + 1) * meta.page_bytes
        found = file.stat().st_size
        if found >= needed or _is_whole(file):
            return
    raise JournalFormatError(
        f"{file} needs {needed} bytes and has {found}, so it is truncated; restore a checkpoint "
        "of the journal, or copy the file again from its source"
    )


def _is_fresh(file: Path) -> bool:
    return not file.exists() or file.stat().st_size == 0


def _is_whole(file: Path) -> bool:
    try:
        faults = cast("list[str]", lmdb.verify.verify(str(file)))
    except lmdb.verify.VerifyError:
        return False
    return not faults


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
    except (lmdb.Error, OSError) as error:
        raise JournalError(
            f"the journal {folder} cannot be opened: {error}. A process may open it only once; the "
            "writer's process must read through its own journal object"
        ) from error


@contextmanager
def _close_on_failure(env: lmdb.Environment) -> Generator[None]:
    try:
        yield
    except BaseException:
        env.close()
        raise


def _create(folder: Path, map_size_bytes: int) -> None:
    """Make an empty journal beside its place, and move it there when it is on the disk."""
    new = folder / NEW_FOLDER
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    env = lmdb.open(str(new), map_size=map_size_bytes, max_dbs=MAX_DBS)
    with closing(env), env.begin(write=True) as txn:
        tables = open_tables(env, creating=txn)
        txn.put(FORMAT_KEY, str(FORMAT).encode(), db=tables.meta)
    (new / DATA_FILE).rename(folder / DATA_FILE)
    shutil.rmtree(new)
    sync(folder)


def _refuse_other_format(env: lmdb.Environment, folder: Path) -> None:
    try:
        meta = env.open_db(b"meta", create=False)
        with env.begin() as txn:
            found = txn.get(FORMAT_KEY, db=meta)
    except (lmdb.NotFoundError, lmdb.IncompatibleError):
        found = None
    if found is None:
        raise JournalFormatError(
            f"{folder / DATA_FILE} is an LMDB file but not a journal: it has no format version; "
            "choose another run directory"
        )
    if found != str(FORMAT).encode():
        raise JournalFormatError(
            f"the journal {folder} needs format version {FORMAT} and has "
            f"{found.decode(errors='replace')}; open it with the version of coevolve that wrote "
            "it, or start a new run directory"
        )

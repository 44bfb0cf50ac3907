"""Opens a journal's folder, and refuses to where that would do harm.

It refuses a second writer, another format version, a file that is not a journal, and a truncated
file; each message names the remedy. The check for truncation runs before the file is mapped,
because reading a mapped page beyond the end of a file kills the process.
"""

import fcntl
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

import lmdb
import lmdb.verify

from coevolve.journal.checksums import seal
from coevolve.journal.layout import (
    DATA_FILE,
    FORMAT,
    FORMAT_KEY,
    MAX_DBS,
    MAX_READERS,
    ROOT_KEY,
    Tables,
    open_tables,
)
from coevolve.journal.root import META, Root
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

_META_MAGIC = 0xBEEFC0DE
_META_AT = 16
_META = struct.Struct("<IIQQI92xQQ")
"""Magic, version, address, map size, page size (the first field of the free list's record), the
rest of two tree records, last page, transaction."""


class MetaPage(NamedTuple):
    """The fields of LMDB's newest meta page."""

    map_bytes: int
    page_bytes: int
    last_page: int
    transaction: int


class OpenedJournal(NamedTuple):
    """An environment and its tables."""

    env: lmdb.Environment
    tables: Tables


def lock_folder(folder: Path) -> IO[str]:
    """Make this process the folder's writer until the returned file is closed or the process dies.

    Raises JournalLockedError if another process has the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
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
    fresh = _is_fresh(folder / DATA_FILE)
    if not fresh:
        refuse_truncated(folder / DATA_FILE)
    with _translate_errors(folder):
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
            if fresh or env.stat()["entries"] == 0:
                tables = _create(env)
            else:
                _refuse_other_format(env, folder)
                tables = open_tables(env)
            env.reader_check()
            if durability == "power":
                env.sync(True)
                sync_folder(folder)
            return OpenedJournal(env, tables)


def open_for_reading(folder: Path) -> OpenedJournal:
    """Open an existing journal read-only; a writer may be active or not."""
    file = folder / DATA_FILE
    if _is_fresh(file):
        raise JournalError(
            f"there is no journal at {folder}; start the run first and wait until it has begun, "
            f"or name the folder that contains {DATA_FILE}"
        )
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


def read_meta(file: Path) -> MetaPage:
    """Return the newest meta page. Raises JournalFormatError if the file has none."""
    with file.open("rb") as stream:
        head = stream.read(_META_AT + _META.size)
        pages = [_parse_meta(head)]
        if pages[0] is not None:
            stream.seek(pages[0].page_bytes)
            pages.append(_parse_meta(stream.read(_META_AT + _META.size)))
    found = [page for page in pages if page is not None]
    if len(found) < 2:
        raise JournalFormatError(
            f"{file} needs two LMDB meta pages and has {len(found)}: it is truncated or not a "
            "journal; restore a checkpoint of the journal, or choose another run directory"
        )
    return max(found, key=lambda page: page.transaction)


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


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries and its own entry, so that they survive a power cut."""
    for place in (folder, folder.parent):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_fresh(file: Path) -> bool:
    return not file.exists() or file.stat().st_size == 0


def _is_whole(file: Path) -> bool:
    try:
        faults = cast("list[str]", lmdb.verify.verify(str(file)))
    except lmdb.verify.VerifyError:
        return False
    return not faults


def _parse_meta(page: bytes) -> MetaPage | None:
    if len(page) < _META_AT + _META.size:
        return None
    magic, _, _, map_bytes, page_bytes, last_page, transaction = _META.unpack_from(page, _META_AT)
    if magic != _META_MAGIC or page_bytes == 0:
        return None
    return MetaPage(map_bytes, page_bytes, last_page, transaction)


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
    except lmdb.Error as error:
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


def _create(env: lmdb.Environment) -> Tables:
    """Create all tables and the format version in one transaction, so no journal is half made."""
    with env.begin(write=True) as txn:
        tables = open_tables(env, creating=txn)
        txn.put(FORMAT_KEY, str(FORMAT).encode(), db=tables.meta)
        txn.put(ROOT_KEY, seal(META, ROOT_KEY, Root().pack(txn.id())), db=tables.meta)
    return tables


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

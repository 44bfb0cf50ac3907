"""Writes a new journal from what is whole in a damaged one, and says what is gone."""

import shutil
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import lmdb

from coevolve.base.durable_files import sync
from coevolve.journal.checksums import entry_check, row_check, seal
from coevolve.journal.layout import (
    DATA_FILE,
    FORMAT,
    FORMAT_KEY,
    ROOT_KEY,
    Tables,
    open_file,
    open_tables,
    pack_pair,
    pack_triple,
    sequence_key,
    topic_row,
    unpack_entries,
    unpack_pair,
    unpair_key,
)
from coevolve.journal.mark import MARK_FILE
from coevolve.journal.opening import lock_folder
from coevolve.journal.root import (
    ACKS,
    CONSUMERS,
    INDEXES,
    MAIN,
    PRODUCERS,
    RECORDS,
    SEATS,
    Root,
)
from coevolve.journal.salvage import Salvage, Salvaged
from coevolve.journal.stale_readers import LOCK_TABLE
from coevolve.journal.synced_file import SYNCED_FILE
from protocols.errors import JournalError

MAX_RECORDS = 1000
"""Records in a transaction."""

MAP_BYTES = 1 << 40

FRESH = ".repaired-"
"""What follows the name of a journal's folder in that of a new one that is not complete."""


class Repaired(NamedTuple):
    """What a repair did."""

    kept: int
    """Records in the new journal."""

    gone: tuple[str, ...]
    """What is lost or uncertain, a sentence each."""

    damaged: Path
    """Where the damaged journal is now."""


def repair(folder: Path) -> Repaired:
    """Replace a journal by a new one with what is whole; keep the damaged one beside it.

    Raises JournalError if a process is writing it, if it holds nothing whole, or if the new journal
    cannot be written.
    """
    with lock_folder(folder):
        salvage = Salvage(folder / DATA_FILE)
        found = salvage.read()
        if not found.records:
            raise JournalError(
                f"{folder / DATA_FILE} needs at least one whole record and has none; restore a "
                "checkpoint or a copy of the run"
            )
        for left in folder.parent.glob(f"{folder.name}{FRESH}*"):  # a repair that was killed
            shutil.rmtree(left, ignore_errors=True)
        fresh = folder.with_name(f"{folder.name}{FRESH}{uuid.uuid4().hex[:8]}")
        try:
            _Writer(fresh, salvage, found).write()
            damaged = _swap(folder, fresh)
        except (OSError, lmdb.Error) as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise JournalError(
                f"the repair of {folder} needs room for a new journal and got {error}; the damaged "
                "one is unchanged; free space and try again"
            ) from error
    return Repaired(len(found.records), tuple(losses(found)), damaged)


def losses(found: Salvaged) -> Iterator[str]:
    """Yield a sentence for all that is lost or uncertain."""
    if found.root is None:
        yield "the root is lost, so nothing says how many records there were"
    lost = sorted(found.listed.keys() - found.records.keys())
    for sequence in lost:
        entries = ", ".join(_printed(entry) for entry in found.listed[sequence])
        yield f"record {sequence} is gone; it was listed under {entries}"
    if found.root is not None:
        missing = found.root.count(RECORDS) - len(found.records) - len(lost)
        if missing > 0:
            yield f"{missing} more records are gone, whose index entries are gone as well"
    for table in found.uncertain:
        yield _UNCERTAIN[table]
    if found.found_elsewhere:
        yield (
            f"{found.found_elsewhere} records were found outside their table; some of them may "
            "have been deleted by retention"
        )


_UNCERTAIN = {
    INDEXES: "entries of the index were damaged; the new index is made from the records",
    ACKS: "finished records were forgotten; they may be delivered again",
    CONSUMERS: "the progress of consumers may be older; finished records may be delivered again",
    SEATS: "members of consumers were forgotten; their next start takes their seats again",
    PRODUCERS: "receipts of producers were forgotten; a write without an answer may be repeated",
}


def _printed(entry: bytes) -> str:
    name = entry[1:].partition(b"\0")
    return " ".join(part.decode(errors="backslashreplace") for part in name if part.strip(b"\0"))


def _swap(folder: Path, fresh: Path) -> Path:
    """Put the new journal's files in the place of the damaged ones, which move to a new folder."""
    damaged = folder.with_name(f"{folder.name}.damaged-{fresh.name[-8:]}")
    damaged.mkdir()
    moved: list[str] = []
    try:
        for name in (MARK_FILE, SYNCED_FILE, LOCK_TABLE, DATA_FILE):
            if (folder / name).exists():
                (folder / name).rename(damaged / name)
                moved.append(name)
        (fresh / DATA_FILE).rename(folder / DATA_FILE)
    except OSError:
        for name in moved:
            (damaged / name).rename(folder / name)
        damaged.rmdir()
        raise
    shutil.rmtree(fresh)
    sync(folder)
    sync(folder.parent)
    return damaged


class _Writer:
    """Writes one new journal."""

    def __init__(self, folder: Path, salvage: Salvage, found: Salvaged) -> None:
        self._folder = folder
        self._salvage = salvage
        self._found = found
        self._root = Root()
        self._topics: dict[str, list[int]] = {}
        """Topic -> its sequences."""

        self._sizes: dict[str, int] = {}

    def write(self) -> None:
        self._folder.mkdir()
        # No other process knows the folder. LMDB's lock file would be mapped, and a full disk kills
        # a process that writes there.
        with open_file(self._folder, map_size=MAP_BYTES, sync=False, lock=False) as env:
            with env.begin(write=True) as txn:
                tables = open_tables(env, creating=txn)
                txn.put(FORMAT_KEY, str(FORMAT).encode(), db=tables.meta)
                self._finish(txn, tables)
            sequences = iter(sorted(self._found.records))
            while chunk := list(islice(sequences, MAX_RECORDS)):
                with env.begin(write=True) as txn:
                    self._add(txn, tables, chunk)
                    self._finish(txn, tables)
            with env.begin(write=True) as txn:
                self._root.assign(self._found.last)
                self._add_rows(txn, tables)
                self._finish(txn, tables)
            env.sync(True)

    def _add(self, txn: "lmdb.Transaction[bytes]", tables: Tables, chunk: Sequence[int]) -> None:
        for sequence in chunk:
            start, size = self._found.records[sequence]
            value = self._salvage.content[start : start + size]
            key, entries = sequence_key(sequence), unpack_entries(sequence, value)
            txn.put(key, value, db=tables.records, append=True)
            self._root.change(RECORDS, 1, sequence**2)
            for entry in entries:
                txn.put(entry, key, db=tables.indexes)
                self._root.change(INDEXES, 1, entry_check(entry, sequence))
            topic = entries[0][1:].decode()
            self._topics.setdefault(topic, []).append(sequence)
            self._sizes[topic] = self._sizes.get(topic, 0) + size

    def _add_rows(self, txn: "lmdb.Transaction[bytes]", tables: Tables) -> None:
        for topic, sequences in self._topics.items():
            payload = pack_triple(len(sequences), 0, self._sizes[topic])
            self._put(txn, tables, MAIN, topic_row(topic), payload)
        for table, rows in self._found.rows.items():
            for key, value in rows.items():
                payload = value[8:]
                if table == CONSUMERS:
                    payload = self._add_acks(txn, tables, key, payload)
                self._put(txn, tables, table, key, payload)

    def _add_acks(
        self, txn: "lmdb.Transaction[bytes]", tables: Tables, key: bytes, payload: bytes
    ) -> bytes:
        """Write the finished records beyond a consumer's cursor; return the consumer's row."""
        cursor, _ = unpack_pair(payload)
        there = self._topics.get(unpair_key(key)[1], [])
        beyond = {each for each in self._found.acks.get(key, ()) if each > cursor} & set(there)
        for sequence in sorted(beyond):
            txn.put(key, sequence_key(sequence), db=tables.acks)
            self._root.change(ACKS, 1, entry_check(key, sequence))
        return pack_pair(cursor, sum(each <= cursor for each in there) + len(beyond))

    def _put(
        self,
        txn: "lmdb.Transaction[bytes]",
        tables: Tables,
        table: int,
        key: bytes,
        payload: bytes,
    ) -> None:
        check = row_check(table, key, payload)
        txn.put(key, seal(check, payload), db=tables[table])
        self._root.replace(table, None, check)

    def _finish(self, txn: "lmdb.Transaction[bytes]", tables: Tables) -> None:
        root = self._root.pack(txn.id())
        txn.put(ROOT_KEY, seal(row_check(MAIN, ROOT_KEY, root), root), db=tables.main)

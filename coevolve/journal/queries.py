"""Queries on one consistent state of the journal; all results are copies."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import lmdb

from coevolve.journal.checksums import DamageError
from coevolve.journal.damage import naming_damage
from coevolve.journal.layout import (
    DATA_FILE,
    Tables,
    index_key,
    sequence_key,
    sequence_of,
    topic_key,
    unpack_body,
    unpack_record,
    unpack_topic,
)
from protocols.errors import JournalError
from protocols.journal import StoredRecord


class Snapshot:
    """The journal at the start of the transaction, up to sequence ``through``.

    All results are copies, because a view of the map that outlives its transaction silently shows
    the bytes of other records.
    """

    def __init__(self, txn: "lmdb.Transaction[memoryview]", tables: Tables, through: int) -> None:
        self._txn = txn
        self._tables = tables
        self._through = through

    def read(self, sequences: Sequence[int]) -> list[StoredRecord]:
        get, table, through = self._txn.get, self._tables.records, self._through
        records: list[StoredRecord] = []
        for sequence in sequences:
            value = None
            if 1 <= sequence <= through:
                value = get(sequence.to_bytes(8, "little"), None, table)
            if value is None:
                raise _gone(sequence)
            records.append(unpack_record(sequence, value))
        return records

    def scan(self, topic: str, after: int = 0, limit: int = 1000) -> list[StoredRecord]:
        return self._records(topic_key(topic), after, limit)

    def find(self, index: str, key: str, limit: int = 1000) -> list[StoredRecord]:
        return self._records(index_key(index, key), 0, limit)

    def last(self, topic: str) -> StoredRecord | None:
        sequence = self.newest(topic)
        return self.listed(topic_key(topic), sequence) if sequence else None

    def page(
        self, sequences: Iterable[int], size_bytes: int, entry: bytes | None = None
    ) -> tuple[list[StoredRecord], bool]:
        """Return the first of these records, and whether more are left.

        The page ends with the record with which the bodies reach ``size_bytes``. Raises
        JournalError if a record was deleted, or if it does not list ``entry``.
        """
        records: list[StoredRecord] = []
        left_bytes = size_bytes
        for sequence in sequences:
            if left_bytes <= 0:
                return records, True
            record = self.listed(entry, sequence) if entry else self.read((sequence,))[0]
            records.append(record)
            left_bytes -= len(record.body)
        return records, False

    def gather(self, sequences: Sequence[int]) -> tuple[bytes, list[int]]:
        """Return these records' bodies concatenated, and the size of each.

        Copies every body once, into one block; intended for randomly drawn batches. Raises
        JournalError if a record was deleted.
        """
        get, records, through = self._txn.get, self._tables.records, self._through
        bodies: list[bytes | memoryview] = []
        sizes: list[int] = []
        for sequence in sequences:
            value = get(sequence.to_bytes(8, "little"), None, records)
            if value is None or sequence > through:
                raise _gone(sequence)
            body = unpack_body(sequence, value)
            bodies.append(body)
            sizes.append(len(body))
        return b"".join(bodies), sizes

    def newest(self, topic: str) -> int:
        """Return the newest sequence of ``topic``, or 0 if it has no records."""
        cursor = self._txn.cursor(self._tables.indexes)
        found = cursor.set_key(topic_key(topic)) and cursor.last_dup()
        while found:
            sequence = sequence_of(cursor.value())
            if sequence <= self._through:
                return sequence
            found = cursor.prev_dup()
        return 0

    def topic(self, sequence: int) -> str | None:
        """Return a record's topic, or None if the journal does not have the record."""
        if not 1 <= sequence <= self._through:
            return None
        value = self._txn.get(sequence_key(sequence), db=self._tables.records)
        return unpack_topic(sequence, value) if value is not None else None

    def sequences(self, entry: bytes, after: int) -> Iterator[int]:
        """Yield the sequences after ``after`` under one index entry, ascending."""
        through = self._through
        for key in self._keys(entry, after):
            sequence = int.from_bytes(key, "little")
            if sequence > through:
                return
            yield sequence

    def _keys(self, entry: bytes, after: int) -> Iterator[memoryview]:
        """Return the encoded sequences after ``after`` under one index entry, ascending."""
        cursor = self._txn.cursor(self._tables.indexes)
        if cursor.set_range_dup(entry, sequence_key(after + 1)):
            return cursor.iternext_dup(keys=False, values=True)
        return iter(())

    def _records(self, entry: bytes, after: int, limit: int) -> list[StoredRecord]:
        get, table, through = self._txn.get, self._tables.records, self._through
        records: list[StoredRecord] = []
        for key in islice(self._keys(entry, after), limit):
            sequence = int.from_bytes(key, "little")
            if sequence > through:
                break
            value = get(key, None, table)
            if value is None:
                raise _missing(sequence)
            records.append(unpack_record(sequence, value, entry))
        return records

    def listed(self, entry: bytes, sequence: int) -> StoredRecord:
        """Return the record to which an index entry leads. Raises DamageError."""
        value = self._txn.get(sequence_key(sequence), db=self._tables.records)
        if value is None:
            raise _missing(sequence)
        return unpack_record(sequence, value, entry)


@contextmanager
def snapshot(env: lmdb.Environment, tables: Tables, through: int) -> Generator[Snapshot]:
    """Open a consistent snapshot for reading, up to sequence ``through``."""
    with naming_damage(Path(env.path()) / DATA_FILE), env.begin(buffers=True) as txn:
        yield Snapshot(txn, tables, through)


def _missing(sequence: int) -> DamageError:
    return DamageError(f"record {sequence} is in the index and is missing")


def _gone(sequence: int) -> JournalError:
    return JournalError(
        f"the journal has no record {sequence}: it was never written, or retention deleted it "
        "(raise store.retain_gb to keep rollouts longer)"
    )

"""The writer's in-memory state, and its reconstruction from the file.

The memory is ahead of the file by the transaction in progress. If that transaction is aborted,
`State.reload` restores agreement. Leases survive, because they are not in the file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import lmdb

from coevolve.journal.checksums import unseal
from coevolve.journal.consumers import Consumer, Place
from coevolve.journal.contents import read_root, topic_rows
from coevolve.journal.layout import (
    TOPIC_ROW,
    Tables,
    sequence_of,
    unpack_names,
    unpack_pair,
    unpack_triple,
    unpair_key,
)
from coevolve.journal.retention import Covered, covered
from coevolve.journal.root import CONSUMERS, MAIN, SEATS, Root

RECEIPTS = 1000
"""Most receipts in memory; the others are read from the file."""


@dataclass(slots=True)
class Totals:
    """Counts of one topic."""

    appended: int = 0
    evicted: int = 0
    size_bytes: int = 0
    """Size of the stored values, without LMDB's page overhead."""

    check: int | None = None
    """Checksum of its row; None if it has none yet."""

    @property
    def kept(self) -> int:
        """The number of records that the file has."""
        return self.appended - self.evicted


class Answered(NamedTuple):
    """A producer's last write."""

    counter: int
    first: int
    """The first sequence of its records."""

    records: int
    check: int
    """Checksum of its row."""


class State:
    """Last sequence, topic counts, consumers and the newest receipts."""

    def __init__(self) -> None:
        self.root = Root()
        self.last = 0
        self.totals: dict[str, Totals] = {}
        self.consumers: dict[str, Consumer] = {}
        self.receipts: dict[str, Answered] = {}
        """Producer -> its last write, for up to `RECEIPTS` producers."""

        self.covered = Covered()

        self.spent: dict[str, int] = {}
        """Topic -> sequence through which its records may go; without topics that have none."""

        self.spent_due = 0
        """Sequence from which on `spent` is old."""

        self.looked: dict[str, int] = {}
        """Topic -> sequence through which the records left are ones that something needed."""

        self.again_due = 0
        """Sequence from which on `looked` is old."""

    def reload(self, txn: "lmdb.Transaction[bytes]", tables: Tables) -> None:
        """Reload everything except the leases from the file."""
        self.root = read_root(txn, tables)
        self.last = self.root.last
        self.totals = {
            key[len(TOPIC_ROW) :].decode(): _totals(*unseal(MAIN, key, row))
            for key, row in topic_rows(txn, tables)
        }
        self.receipts.clear()
        for consumer in self.consumers.values():
            consumer.places.clear()
            consumer.seats.clear()
        for key, row in txn.cursor(tables.consumers):
            name, topic = unpair_key(key)
            place = _place(txn, tables, key, row)
            self.consumer(name).places[topic] = place
        for key, row in txn.cursor(tables.seats):
            name, member = unpair_key(key)
            self.consumer(name).seats[member] = unpack_names(unseal(SEATS, key, row)[0])
        for consumer in self.consumers.values():
            consumer.drop_leases_without_place()
        self.covered = covered(txn, tables)
        self.spent, self.spent_due = {}, 0
        self.looked, self.again_due = {}, 0

    def note(self, producer: str, write: Answered) -> None:
        """Keep a producer's last write in memory."""
        if len(self.receipts) >= RECEIPTS and producer not in self.receipts:
            self.receipts.clear()
        self.receipts[producer] = write

    def consumer(self, name: str) -> Consumer:
        """Return the consumer, created on first use."""
        return self.consumers.setdefault(name, Consumer(name))

    def count(self, topic: str) -> Totals:
        """Return a topic's counts, created on first use."""
        known = self.totals.get(topic)
        if known is None:
            known = self.totals[topic] = Totals()
        return known

    def size_bytes(self, topics: Iterable[str]) -> int:
        """Return the total size of the records of ``topics``."""
        known = self.totals
        return sum([known[topic].size_bytes for topic in topics if topic in known])

    def evicted(self, topic: str) -> int:
        """Return how many records of ``topic`` retention deleted."""
        return self._known(topic).evicted

    def kept(self, topic: str) -> int:
        """Return how many records of ``topic`` the file has."""
        return self._known(topic).kept

    def unfinished(self, consumer: Consumer) -> int:
        """Return a consumer's number of unfinished records, including leased ones."""
        return sum(
            self.count(topic).appended - place.finished for topic, place in consumer.places.items()
        )

    def places(self) -> Iterator[tuple[str, Place]]:
        """Yield the topic and the place of each consumer in each of its topics."""
        for consumer in self.consumers.values():
            yield from consumer.places.items()

    def finished_by_all(self, topic: str) -> int:
        """Return the sequence up to which every consumer of ``topic`` has finished."""
        cursors = [
            consumer.places[topic].cursor
            for consumer in self.consumers.values()
            if topic in consumer.places
        ]
        return min(cursors, default=self.last)

    def _known(self, topic: str) -> Totals:
        return self.totals.get(topic, Totals())


def _totals(payload: bytes, check: int) -> Totals:
    return Totals(*unpack_triple(payload), check)


def _place(txn: "lmdb.Transaction[bytes]", tables: Tables, key: bytes, row: bytes) -> Place:
    payload, check = unseal(CONSUMERS, key, row)
    cursor, finished = unpack_pair(payload)
    acks = txn.cursor(tables.acks)
    beyond: set[int] = set()
    if acks.set_key(key):
        beyond = {sequence_of(value) for value in acks.iternext_dup(keys=False, values=True)}
    return Place(key, cursor, finished, beyond=beyond, check=check, frontier=cursor)

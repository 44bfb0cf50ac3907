"""One write transaction: it executes many requests, all of them in the file or none.

A refused request (a lost lease, an old counter) leaves no trace and does not affect the others.
Rows that change with every record are written once, at the end of the transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import lmdb

from coevolve.journal.checksums import (
    CHECK_BYTES,
    DamageError,
    check_of,
    entry_check,
    row_check,
    seal,
    unseal,
)
from coevolve.journal.consumers import SEATS_KEPT, Consumer, Place, new_place
from coevolve.journal.layout import (
    PREFIX_BYTES,
    ROOT_KEY,
    PackedRecord,
    Tables,
    encode_name,
    moved_key,
    pack_names,
    pack_pair,
    pack_rows,
    pack_triple,
    pair_key,
    sequence_key,
    sequence_of,
    topic_key,
    topic_row,
    unpack_entries,
    unpack_topic,
    unpack_triple,
)
from coevolve.journal.retention import (
    SNAPSHOTS,
    SNAPSHOTS_KEPT,
    SPENT_AGAIN,
    SPENT_EVERY,
    SPENT_PER_RECORD,
    Needs,
    Retention,
    covered,
)
from coevolve.journal.root import (
    ACKS,
    CONSUMERS,
    INDEXES,
    MAIN,
    PRODUCERS,
    RECORDS,
    SEATS,
)
from coevolve.journal.state import Answered, State, Totals
from protocols.errors import RefusedError
from protocols.journal import Append, Complete, Receipt, Take

EVICTIONS_PER_TRANSACTION = 2000
"""Bounds the duration of a commit after the byte budget was lowered."""


class WriteTransaction:
    """One transaction of the journal's only writer."""

    def __init__(
        self,
        txn: "lmdb.Transaction[bytes]",
        tables: Tables,
        state: State,
        *,
        time_ns: int,
        now_s: float,
    ) -> None:
        self._txn = txn
        self.transaction = txn.id()
        self._tables = tables
        self._state = state
        self._time_ns = time_ns
        self._now_s = now_s
        self._records: list[tuple[bytes, PackedRecord]] = []
        self._entries: list[tuple[bytes, bytes]] = []
        self._entries_check = 0
        self.appended: dict[str, int] = {}
        """Newest sequence of each topic that got records."""

        self._places: dict[bytes, tuple[str, Place]] = {}
        self.released: set[str] = set()
        """Topics in which records became free."""

        self.wrote = False
        """Whether there is anything to commit; repeated and refused requests change nothing."""

    def append(self, request: Append, records: Sequence[PackedRecord]) -> tuple[int, ...]:
        """Add records once; a repeated request returns the result of the first one."""
        done = self._previous_result(request.receipt)
        if done is not None:
            return done
        return self._store_receipt(request.receipt, self._add(records))

    def complete(self, request: Complete, outputs: Sequence[PackedRecord]) -> tuple[int, ...]:
        """Finish records and add the outputs, once. Raises LeaseLostError."""
        done = self._previous_result(request.receipt)
        if done is not None:
            return done
        consumer = self._state.consumer(request.consumer)
        topics = {sequence: self._topic(consumer, sequence) for sequence in request.sequences}
        consumer.refuse_the_finished(request, topics, self._now_s)
        for topic in dict.fromkeys(topics.values()):
            self._subscribe(consumer, topic)
            place = consumer.place(topic)
            place.finish([sequence for sequence, of in topics.items() if of == topic])
            self._places[place.key] = (topic, place)
        consumer.release(request.sequences)
        return self._store_receipt(request.receipt, self._add(outputs))

    def sit(self, request: Take) -> None:
        """Give the seat to the request's incarnation and subscribe the consumer to the topics.

        Raises LeaseLostError if a newer incarnation has the seat.
        """
        consumer = self._state.consumer(request.consumer)
        consumer.refuse_the_displaced(request.member, request.incarnation)
        for topic in request.topics:
            self._subscribe(consumer, topic)
        sat = consumer.seats.setdefault(request.member, [])
        if not sat or sat[-1] != request.incarnation:
            self.wrote = True
            self.released |= consumer.release_member(request.member)
            sat.append(request.incarnation)
            del sat[:-SEATS_KEPT]
            row = pair_key(request.consumer, request.member)
            old = self._txn.get(row, db=self._tables.seats)
            self._put(SEATS, row, pack_names(sat), check_of(old) if old else None)

    def finish(self, retention: Retention) -> None:
        """Write the pending rows of all requests; only the commit remains."""
        state, tables = self._state, self._tables
        touched = self.appended.keys()
        if self._records:
            rows = pack_rows(state.root.last + 1, self._time_ns, self._records)
            _put_all(self._txn.cursor(tables.records), rows)
            _put_all(self._txn.cursor(tables.indexes), self._entries)
            state.root.add_records(state.last)
            state.root.change(INDEXES, len(self._entries), self._entries_check)
        for topic, place in self._places.values():
            self._advance(topic, place)
        if self._records:
            touched = touched | self._evict(retention)
            if SNAPSHOTS in self.appended:
                self._supersede()
            if state.spent or state.last >= state.spent_due:
                touched |= self._drop_spent(retention)
        for topic in touched:
            totals = state.count(topic)
            row = pack_triple(totals.appended, totals.evicted, totals.size_bytes)
            totals.check = self._put(MAIN, topic_row(topic), row, totals.check)
        if self.wrote:
            root = state.root.pack(self.transaction)
            value = seal(row_check(MAIN, ROOT_KEY, root), root)
            self._txn.put(ROOT_KEY, value, True, True, False, tables.main)

    def _put(self, table: int, key: bytes, payload: bytes, old: int | None) -> int:
        """Put a row in place of one with the checksum ``old``; return its own."""
        check = row_check(table, key, payload)
        value = check.to_bytes(CHECK_BYTES, "little") + payload
        self._txn.put(key, value, True, True, False, self._tables[table])
        self._state.root.replace(table, old, check)
        return check

    def _previous_result(self, receipt: Receipt) -> tuple[int, ...] | None:
        known = self._state.receipts.get(receipt.producer) or self._stored(receipt.producer)
        if known is None or receipt.counter > known.counter:
            return None
        if receipt.counter < known.counter:
            raise RefusedError(
                f"producer {receipt.producer!r} repeated its write {receipt.counter} after its "
                f"write {known.counter}. Only the last write's answer is kept, so a producer may "
                "have one write in flight at a time"
            )
        return tuple(range(known.first, known.first + known.records))

    def _stored(self, producer: str) -> Answered | None:
        """Return a producer's last write from the file."""
        key = encode_name(producer)
        row = self._txn.get(key, db=self._tables.producers)
        if row is None:
            return None
        payload, check = unseal(PRODUCERS, key, row)
        known = Answered(*unpack_triple(payload), check)
        self._state.note(producer, known)
        return known

    def _store_receipt(self, receipt: Receipt, sequences: range) -> tuple[int, ...]:
        self.wrote = True
        producer, counter, count = receipt.producer, receipt.counter, len(sequences)
        known = self._state.receipts.get(producer)
        row = pack_triple(counter, sequences.start, count)
        check = self._put(PRODUCERS, encode_name(producer), row, known.check if known else None)
        self._state.note(producer, Answered(counter, sequences.start, count, check))
        return tuple(sequences)

    def _add(self, records: Sequence[PackedRecord]) -> range:
        first = sequence = self._state.last + 1
        topic, totals, check = "", Totals(), 0
        rows, entries = self._records, self._entries
        for record in records:
            key = sequence.to_bytes(8, "little")
            rows.append((key, record))
            for entry in record.entries:
                entries.append((entry, key))
                check += entry_check(entry, sequence)
            if record.topic != topic:
                topic = record.topic
                totals = self._state.count(topic)
            totals.appended += 1
            totals.size_bytes += PREFIX_BYTES + len(record.names) + len(record.body)
            self.appended[topic] = sequence
            sequence += 1
        self._entries_check += check
        self._state.last = sequence - 1
        return range(first, sequence)

    def _topic(self, consumer: Consumer, sequence: int) -> str:
        lease = consumer.leases.get(sequence)
        if lease is not None:
            return lease.topic
        value = self._txn.get(sequence_key(sequence), db=self._tables.records)
        if value is None:
            raise RefusedError(
                f"consumer {consumer.name!r} cannot finish record {sequence}: the journal does "
                f"not hold it (last is {self._state.last}); finish only records that were taken"
            )
        return unpack_topic(sequence, value)

    def _subscribe(self, consumer: Consumer, topic: str) -> None:
        if topic in consumer.places:
            return
        self.wrote = True
        place = new_place(consumer.name, topic, self._state.evicted(topic))
        consumer.places[topic] = place
        self._put_place(place)

    def _put_place(self, place: Place) -> None:
        payload = pack_pair(place.cursor, place.finished)
        place.check = self._put(CONSUMERS, place.key, payload, place.check)

    def _advance(self, topic: str, place: Place) -> None:
        """Move the cursor up to the first unfinished record; store later finished ones as rows.

        Looks only at what this transaction finished and what the cursor passes, because one old
        unfinished record may keep any number of finished ones beyond the cursor.
        """
        cursor = self._txn.cursor(self._tables.indexes)
        beyond, unstored = place.beyond, place.unstored
        if cursor.set_range_dup(topic_key(topic), sequence_key(place.cursor + 1)):
            for value in cursor.iternext_dup(keys=False, values=True):
                sequence = int.from_bytes(value, "little")
                if sequence not in beyond:
                    break
                beyond.remove(sequence)
                place.cursor = sequence
                if sequence in unstored:
                    unstored.remove(sequence)
                else:
                    self._delete_entry(ACKS, place.key, sequence)
        self._put_place(place)
        for sequence in place.unstored:
            self._txn.put(place.key, sequence_key(sequence), db=self._tables.acks)
            self._state.root.change(ACKS, 1, entry_check(place.key, sequence))
        place.unstored.clear()
        place.frontier = max(place.frontier, place.cursor)

    def _evict(self, retention: Retention) -> set[str]:
        """Delete the oldest evictable records above the budget that every consumer has finished."""
        excess = self._state.size_bytes(retention.evictable) - retention.budget_bytes
        evicted: set[str] = set()
        if excess <= 0:
            return evicted
        finished = {topic: self._state.finished_by_all(topic) for topic in retention.evictable}
        for _ in range(EVICTIONS_PER_TRANSACTION):
            sequence, topic = min(self._oldest(retention.evictable), default=(0, ""))
            if excess <= 0 or not sequence or sequence > finished[topic]:
                break
            excess -= self._delete(sequence, topic)
            evicted.add(topic)
        return evicted

    def _drop_spent(self, retention: Retention) -> set[str]:
        """Delete the oldest spent records, a few for each record that was added."""
        state = self._state
        if state.last >= state.spent_due:
            state.spent_due = state.last + SPENT_EVERY
            if not state.spent and state.last >= state.again_due:
                state.again_due = state.last + SPENT_AGAIN
                state.looked.clear()
            state.spent = self._spent(retention)
        dropped: set[str] = set()
        for topic, through in list(state.spent.items()):
            needs = retention.spent[topic]
            oldest = self._sequences(topic, state.looked.get(topic, 0))
            most = list(islice(oldest, SPENT_PER_RECORD * len(self._records)))
            looked = [sequence for sequence in most if sequence <= through]
            for sequence in looked:
                if not needs.are_single or self._is_spent(sequence, needs):
                    self._delete(sequence, topic)
                    dropped.add(topic)
            state.looked[topic] = looked[-1] if looked else through
            if len(looked) < len(most) or not most:
                del state.spent[topic]
        return dropped

    def _spent(self, retention: Retention) -> dict[str, int]:
        """Return the sequence through which each topic's records are spent."""
        state = self._state
        if not any(map(state.evicted, retention.evictable)):
            return {}
        left = self._oldest(retention.evictable)
        older = min((sequence for sequence, _ in left), default=state.last) - 1
        return {
            topic: min(
                self._newest_but(topic, retention.kept),
                *(older, state.finished_by_all(topic), *self._bounds(needs)),
            )
            for topic, needs in retention.spent.items()
            if state.kept(topic) > retention.kept
        }

    def _newest_but(self, topic: str, kept: int) -> int:
        """Return the newest sequence of a topic but for its newest ``kept``, of which it has more.

        A record that is not the first or the last of its topic is reached step by step.
        """
        cursor = self._txn.cursor(self._tables.indexes)
        cursor.set_key(topic_key(topic))
        cursor.last_dup()
        backwards = cursor.iterprev_dup(keys=False, values=True)
        return sequence_of(next(islice(backwards, kept, None)))

    def _is_spent(self, sequence: int, needs: Needs) -> bool:
        """Return whether nothing needs a record that is old enough."""
        value = self._txn.get(sequence_key(sequence), db=self._tables.records)
        if value is None:
            raise DamageError(f"record {sequence} is in the index and is missing")
        entries = unpack_entries(sequence, value)
        if not self._state.covered.keeps.isdisjoint(entries):
            return False
        if needs.only and not _moved(entries, ((needs.only, needs.only),)):
            return False
        if any(self._first(entry) for entry in _moved(entries, needs.after)):
            return False
        known = min(self._known_to(needs.snapshots), default=0)
        return all(0 < self._first(each) <= known for each in _moved(entries, needs.answered))

    def _first(self, entry: bytes) -> int:
        """Return the oldest sequence under an index entry, or 0."""
        value = self._txn.get(entry, db=self._tables.indexes)
        return 0 if value is None else sequence_of(value)

    def _bounds(self, needs: Needs) -> Iterator[int]:
        """Yield the sequences beyond which records are needed."""
        yield self._state.last
        yield from self._known_to(needs.snapshots)
        if needs.units:
            for topic, place in self._state.places():
                for sequence in islice(self._sequences(topic, place.cursor), 1):
                    yield sequence - 1
        for sequence, _ in self._oldest(needs.older):
            yield sequence - 1

    def _known_to(self, parts: Iterable[str]) -> Iterator[int]:
        """Yield the sequences through which the snapshots of these parts go."""
        for part in parts:
            yield self._state.covered.through.get(part, 0)

    def _supersede(self) -> None:
        """Delete the older snapshots of each part that wrote one."""
        added = [record.entries for _, record in self._records if record.topic == SNAPSHOTS]
        for entry in {entry for _, *keys in added for entry in keys}:
            cursor = self._txn.cursor(self._tables.indexes)
            if cursor.set_key(entry):
                found = list(map(sequence_of, cursor.iternext_dup(keys=False, values=True)))
                for sequence in found[:-SNAPSHOTS_KEPT]:
                    self._delete(sequence, SNAPSHOTS)
        self._state.covered = covered(self._txn, self._tables)

    def _oldest(self, topics: Iterable[str]) -> Iterator[tuple[int, str]]:
        for topic in topics:
            for sequence in islice(self._sequences(topic), 1):
                yield sequence, topic

    def _sequences(self, topic: str, after: int = 0) -> Iterator[int]:
        cursor = self._txn.cursor(self._tables.indexes)
        if cursor.set_range_dup(topic_key(topic), sequence_key(after + 1)):
            yield from map(sequence_of, cursor.iternext_dup(keys=False, values=True))

    def _delete(self, sequence: int, topic: str) -> int:
        key = sequence_key(sequence)
        value = self._txn.pop(key, db=self._tables.records)
        if value is None:
            raise DamageError(f"record {sequence} is in the index of {topic!r} and is missing")
        self._state.root.change(RECORDS, -1, -(sequence**2))
        for entry in unpack_entries(sequence, value):
            self._delete_entry(INDEXES, entry, sequence)
        totals = self._state.count(topic)
        totals.evicted += 1
        totals.size_bytes -= len(value)
        return len(value)

    def _delete_entry(self, table: int, entry: bytes, sequence: int) -> None:
        if not self._txn.delete(entry, sequence_key(sequence), db=self._tables[table]):
            raise DamageError(f"the entry {entry!r} of record {sequence} is missing")
        self._state.root.change(table, -1, -entry_check(entry, sequence))


def _moved(entries: Iterable[bytes], indexes: Iterable[tuple[str, str]]) -> list[bytes]:
    """Return the entries of the same keys in other indexes."""
    moved = (moved_key(entry, own, other) for own, other in indexes for entry in entries)
    return [entry for entry in moved if entry is not None]


def _put_all(cursor: "lmdb.Cursor[bytes]", rows: Iterable[tuple[bytes, bytes]]) -> None:
    consumed, added = cursor.putmulti(rows, dupdata=True, append=True)
    if added != consumed:
        raise DamageError(
            f"{consumed - added} of {consumed} new rows have keys before the end of their table"
        )

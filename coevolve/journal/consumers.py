"""Each consumer's progress in its topics, its members (seats) and its leases.

Progress and seats mirror rows of the file; leases are only in memory. Only the journal's committer
thread uses these objects.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from coevolve.journal.layout import pair_key, topic_key
from coevolve.journal.queries import Snapshot
from protocols.errors import LeaseLostError
from protocols.journal import Complete, Take

SEATS_KEPT = 64
"""Incarnations remembered per seat. Only a zombie process older than these goes undetected."""


@dataclass(slots=True)
class Place:
    """The progress of one consumer in one topic."""

    key: bytes
    """Key of its rows in `consumers` and `acks`."""

    cursor: int = 0
    """Every record of the topic up to this sequence is finished."""

    finished: int = 0
    """Number of records that are finished or were evicted before the consumer subscribed."""

    beyond: set[int] = field(default_factory=set[int])
    """Finished sequences greater than ``cursor``."""

    unstored: set[int] = field(default_factory=set[int])
    """The subset of ``beyond`` that has no rows in `acks` yet: what this transaction finished."""

    check: int | None = None
    """Checksum of its row in `consumers`; None if it has none yet."""

    frontier: int = 0
    """All records up to this sequence are finished or leased; the search for work starts after
    it."""

    def has_finished(self, sequence: int) -> bool:
        """Return whether the consumer has finished a record of this topic."""
        return sequence <= self.cursor or sequence in self.beyond

    def finish(self, sequences: Sequence[int]) -> None:
        """Note that the consumer has finished records, each of which it had not finished."""
        self.beyond.update(sequences)
        self.unstored.update(sequences)
        self.finished += len(sequences)


@dataclass(frozen=True, slots=True)
class Lease:
    """A member's lease of a record; the records of one topic that it took together share one."""

    topic: str
    member: str
    incarnation: str
    expires_s: float


class Consumer:
    """The members that share one stream of work, and the records that each holds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: dict[str, Place] = {}
        self.seats: dict[str, list[str]] = {}
        self.leases: dict[int, Lease] = {}
        self._held: dict[str, set[int]] = {}

    def place(self, topic: str) -> Place:
        """Return the consumer's place in a topic it has subscribed to."""
        return self.places[topic]

    def refuse_the_displaced(self, member: str, incarnation: str) -> None:
        """Raise LeaseLostError if a newer incarnation has the seat."""
        sat = self.seats.get(member, [])
        if incarnation in sat[:-1]:
            raise LeaseLostError(
                f"seat {member!r} of consumer {self.name!r} belongs to incarnation {sat[-1]!r}, "
                f"which came after {incarnation!r}; stop this process, its successor runs"
            )

    def refuse_the_finished(self, request: Complete, topics: dict[int, str], now_s: float) -> None:
        """Raise LeaseLostError if a sequence is finished or leased to another member."""
        self.refuse_the_displaced(request.member, request.incarnation)
        own = None
        for sequence, topic in topics.items():
            place = self.places.get(topic)
            if place and (sequence <= place.cursor or sequence in place.beyond):
                raise LeaseLostError(
                    f"record {sequence} was already finished by consumer {self.name!r}, so "
                    f"{request.member!r} cannot finish it again; discard the result"
                )
            lease = self.leases.get(sequence)
            if lease is own or lease is None:
                continue
            if lease.member == request.member and lease.incarnation == request.incarnation:
                own = lease
            elif lease.expires_s > now_s:
                raise LeaseLostError(
                    f"record {sequence} is held by {lease.member!r} ({lease.incarnation}) of "
                    f"consumer {self.name!r}, not by {request.member!r} ({request.incarnation}); "
                    "discard the result, or raise store.lease_s if the member was only slow"
                )

    def grant(self, sequences: Sequence[int], topic: str, request: Take, now_s: float) -> None:
        """Lease records to the requesting member, in place of earlier leases."""
        lease = Lease(topic, request.member, request.incarnation, now_s + request.lease_s)
        for sequence in sequences:
            earlier = self.leases.get(sequence)
            if earlier is not None:
                self._held[earlier.member].discard(sequence)
            self.leases[sequence] = lease
        self._held.setdefault(request.member, set()).update(sequences)

    def release(self, sequences: Iterable[int]) -> set[str]:
        """End leases, so that the records can be taken again; return their topics."""
        topics: set[str] = set()
        for sequence in sequences:
            lease = self.leases.pop(sequence, None)
            if lease is None:
                continue
            self._held[lease.member].discard(sequence)
            place = self.place(lease.topic)
            if not place.has_finished(sequence):
                place.frontier = min(place.frontier, sequence - 1)
                topics.add(lease.topic)
        return topics

    def release_expired(self, now_s: float) -> set[str]:
        """End expired leases; return their topics."""
        return self.release(
            [sequence for sequence, lease in self.leases.items() if lease.expires_s <= now_s]
        )

    def release_others(self, request: Take) -> set[str]:
        """End the member's leases that are not in ``request.held``; return their topics."""
        return self.release(self._held.get(request.member, set()) - set(request.held))

    def release_member(self, member: str) -> set[str]:
        """End all leases of a seat after its incarnation changed; return their topics."""
        return self.release(list(self._held.get(member, ())))

    def drop_leases_without_place(self) -> None:
        """Drop leases on topics whose subscription was never committed."""
        for sequence, lease in list(self.leases.items()):
            if lease.topic not in self.places:
                del self.leases[sequence]
                self._held[lease.member].discard(sequence)

    def next_expiry_s(self, topics: Iterable[str], now_s: float) -> float:
        """Return the seconds until the next lease on ``topics`` expires; infinity without one."""
        wanted = set(topics)
        ends = (lease.expires_s for lease in self.leases.values() if lease.topic in wanted)
        return max(0.0, min(ends, default=float("inf")) - now_s)


def new_place(consumer: str, topic: str, evicted: int) -> Place:
    return Place(key=pair_key(consumer, topic), finished=evicted)


def lease(
    consumer: Consumer, request: Take, state: Snapshot, now_s: float
) -> tuple[list[tuple[int, str]], set[str]]:
    """Return the newly leased (sequence, topic), and the topics in which others became free.

    The member's own leases are renewed before expired leases end, so a slow member keeps its work
    unless another member already has it.
    """
    _renew(consumer, request, state, now_s)
    freed = consumer.release_others(request) | consumer.release_expired(now_s)
    topics = dict.fromkeys(request.topics)
    free = heapq.merge(*(_free(consumer, topic, state) for topic in topics))
    granted = list(islice(free, request.limit))
    for topic in topics:
        sequences = [sequence for sequence, of in granted if of == topic]
        if sequences:
            consumer.grant(sequences, topic, request, now_s)
            place = consumer.place(topic)
            place.frontier = max(place.frontier, sequences[-1])
    return granted, freed


def _renew(consumer: Consumer, request: Take, state: Snapshot, now_s: float) -> None:
    """Renew the leases of ``request.held``, including those that a restart forgot."""
    for sequence in request.held:
        known = consumer.leases.get(sequence)
        topic = known.topic if known is not None else state.topic(sequence)
        place = consumer.places.get(topic) if topic is not None else None
        if topic is None or place is None or place.has_finished(sequence):
            continue
        if known is None or known.member == request.member or known.expires_s <= now_s:
            consumer.grant((sequence,), topic, request, now_s)


def _free(consumer: Consumer, topic: str, state: Snapshot) -> Iterator[tuple[int, str]]:
    """Yield the free records of a topic. The caller must lease each one before it asks for more.

    The frontier passes what is not free, so that no later search looks at it again. It is never
    behind the cursor.
    """
    place, leases = consumer.place(topic), consumer.leases
    for sequence in state.sequences(topic_key(topic), place.frontier):
        if sequence in leases or sequence in place.beyond:
            place.frontier = sequence
        else:
            yield sequence, topic

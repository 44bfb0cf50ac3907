"""Selects the records that a member gets when it asks for work."""

import heapq
from collections.abc import Iterator
from itertools import islice

from coevolve.journal.consumers import Consumer
from coevolve.journal.layout import topic_key
from coevolve.journal.queries import Snapshot
from protocols.journal import Take


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

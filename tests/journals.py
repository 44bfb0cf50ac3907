"""Requests to a journal, short enough for tests."""

from collections.abc import Sequence

from coevolve.journal.journal import Journal
from protocols.journal import Append, Complete, Receipt, Record, StoredRecord, Take

LEASE_S = 10.0
WAIT_S = 20.0
"""Bounds every wait for an answer; all answers come much sooner."""


class Clock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def record(body: str = "", topic: str = "note", **keys: str) -> Record:
    return Record(topic=topic, body=body.encode(), keys=tuple(keys.items()))


def append(*records: Record, producer: str = "p", counter: int = 1) -> Append:
    return Append(records=records, receipt=Receipt(producer=producer, counter=counter))


def take(
    *topics: str,
    consumer: str = "c",
    member: str = "m",
    incarnation: str = "m1",
    held: Sequence[int] = (),
    limit: int = 10,
    lease_s: float = LEASE_S,
    wait_s: float = 0.0,
    at_least: int = 1,
) -> Take:
    return Take(
        consumer=consumer,
        topics=topics,
        member=member,
        incarnation=incarnation,
        held=tuple(held),
        limit=limit,
        lease_s=lease_s,
        wait_s=wait_s,
        at_least=at_least,
    )


def complete(
    *sequences: int,
    outputs: Sequence[Record] = (),
    consumer: str = "c",
    member: str = "m",
    incarnation: str = "m1",
    producer: str = "m1",
    counter: int = 1,
) -> Complete:
    return Complete(
        consumer=consumer,
        member=member,
        incarnation=incarnation,
        sequences=sequences,
        outputs=tuple(outputs),
        receipt=Receipt(producer=producer, counter=counter),
    )


def appended(journal: Journal, request: Append) -> tuple[int, ...]:
    return journal.append(request).result(WAIT_S)


def completed(journal: Journal, request: Complete) -> tuple[int, ...]:
    return journal.complete(request).result(WAIT_S)


def taken(journal: Journal, request: Take) -> list[int]:
    return [stored.sequence for stored in journal.take(request).result(WAIT_S).records]


def bodies(records: Sequence[StoredRecord]) -> list[str]:
    return [stored.body.decode() for stored in records]


def everything(journal: Journal) -> list[StoredRecord]:
    """Every record, in order."""
    with journal.snapshot() as state:
        topics = journal.statistics().result(WAIT_S).topics
        found = [stored for topic in topics for stored in state.scan(topic, limit=1_000_000)]
    return sorted(found, key=lambda stored: stored.sequence)

"""Any interleaving of writes, takes, crashes and repetitions, compared with a model in memory.

The model is simple enough to be obviously correct: it keeps every record in a list, searches the
list from the start, and has no transactions, cursors or files.
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE, pack_record
from protocols.errors import LeaseLostError
from protocols.journal import Append, Complete, Durability, Record, Take
from tests.journals import (
    LEASE_S,
    WAIT_S,
    Clock,
    append,
    appended,
    complete,
    completed,
    everything,
    record,
    take,
    taken,
)

TOPICS = ("rollout", "task")
EVICTABLE = ("rollout",)
RETAIN_BYTES = 4000
CONSUMERS = ("learner", "signals")
MEMBERS = ("0", "1")
PRODUCERS = ("a", "b")

chosen_topics = st.lists(st.sampled_from(TOPICS), min_size=1, max_size=2)
shares = st.lists(st.booleans(), min_size=12, max_size=12)


@dataclass
class ConsumerModel:
    topics: set[str] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    leases: dict[int, tuple[str, str, float]] = field(default_factory=dict)
    seats: dict[str, list[str]] = field(default_factory=dict)


class JournalModel:
    """The journal's behaviour as callers see it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.evicted: set[int] = set()
        self.consumers = {name: ConsumerModel() for name in CONSUMERS}

    def topic(self, sequence: int) -> str:
        return self.records[sequence - 1].topic

    def held(self) -> list[int]:
        return [n for n in range(1, len(self.records) + 1) if n not in self.evicted]

    def add(self, records: tuple[Record, ...]) -> tuple[int, ...]:
        first = len(self.records) + 1
        self.records.extend(records)
        if records:
            self.evict()
        return tuple(range(first, first + len(records)))

    def evict(self) -> None:
        def size(sequence: int) -> int:
            packed = pack_record(self.records[sequence - 1])
            return 8 + len(packed.names) + len(packed.body)

        for topic in EVICTABLE:
            mine = [n for n in self.held() if self.topic(n) == topic]
            excess = sum(map(size, mine)) - RETAIN_BYTES
            for n in mine:
                unfinished = any(
                    topic in consumer.topics
                    and any(
                        m not in consumer.finished and m not in self.evicted
                        for m in range(1, n + 1)
                        if self.topic(m) == topic
                    )
                    for consumer in self.consumers.values()
                )
                if excess <= 0 or unfinished:
                    break
                self.evicted.add(n)
                excess -= size(n)

    def take(self, request: Take, now_s: float) -> list[int] | None:
        """Return the sequences, or None if the take is refused."""
        consumer = self.consumers[request.consumer]
        seat = consumer.seats.setdefault(request.member, [])
        if request.incarnation in seat[:-1]:
            return None
        consumer.topics |= set(request.topics)
        leases = consumer.leases
        if seat[-1:] != [request.incarnation]:
            seat.append(request.incarnation)
            for n in [n for n, lease in leases.items() if lease[0] == request.member]:
                del leases[n]
        mine = (request.member, request.incarnation, now_s + request.lease_s)
        for n in request.held:
            free = n not in leases or leases[n][0] == request.member or leases[n][2] <= now_s
            if free and n in self.held() and n not in consumer.finished:
                leases[n] = mine
        for n, (member, _, ends) in list(leases.items()):
            if ends <= now_s or (member == request.member and n not in request.held):
                del leases[n]
        free = [
            n
            for n in self.held()
            if self.topic(n) in request.topics and n not in consumer.finished and n not in leases
        ]
        for n in free[: request.limit]:
            leases[n] = mine
        return free[: request.limit]

    def complete(self, request: Complete, now_s: float) -> tuple[int, ...] | None:
        """Return the outputs' sequences, or None if the completion is refused."""
        consumer = self.consumers[request.consumer]
        if request.incarnation in consumer.seats.get(request.member, [])[:-1]:
            return None
        for n in request.sequences:
            member, incarnation, ends = consumer.leases.get(
                n, (request.member, request.incarnation, 0.0)
            )
            own = (member, incarnation) == (request.member, request.incarnation)
            if n in consumer.finished or (not own and ends > now_s):
                return None
        for n in request.sequences:
            consumer.finished.add(n)
            consumer.leases.pop(n, None)
            consumer.topics.add(self.topic(n))
        return self.add(request.outputs)

    def crash(self) -> None:
        for consumer in self.consumers.values():
            consumer.leases.clear()


class JournalMachine(RuleBasedStateMachine):
    durability: Durability = "process"

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="journal-model-"))
        self.clock = Clock()
        self.model = JournalModel()
        self.written = 0
        self.bodies = 0
        self.writes: dict[str, tuple[Append | Complete, tuple[int, ...]]] = {}

    @initialize()
    def open(self) -> None:
        self.opened = 0
        self.journal = self.reopened()

    def reopened(self) -> Journal:
        return Journal.open(
            self.root / str(self.opened),
            durability=self.durability,
            retain_bytes=RETAIN_BYTES,
            evictable=EVICTABLE,
            clock=self.clock,
        )

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
        shutil.rmtree(self.root)

    def records(self, topics: list[str]) -> list[Record]:
        """New records; no two have the same body."""
        made: list[Record] = []
        for topic in topics:
            self.bodies += 1
            made.append(record(f"{self.bodies:0500d}", topic, parity=str(self.bodies % 2)))
        return made

    @rule(producer=st.sampled_from(PRODUCERS), topics=st.lists(st.sampled_from(TOPICS), max_size=3))
    def append(self, producer: str, topics: list[str]) -> None:
        self.written += 1
        request = append(*self.records(topics), producer=producer, counter=self.written)
        expected = self.model.add(request.records)
        assert appended(self.journal, request) == expected
        self.writes[producer] = request, expected

    @rule(data=st.data())
    @precondition(lambda self: self.writes)
    def repeat_a_write(self, data: st.DataObject) -> None:
        request, answer = self.writes[data.draw(st.sampled_from(sorted(self.writes)))]
        if isinstance(request, Append):
            assert appended(self.journal, request) == answer
        else:
            assert completed(self.journal, request) == answer

    @rule(
        consumer=st.sampled_from(CONSUMERS),
        member=st.sampled_from(MEMBERS),
        topics=chosen_topics,
        limit=st.integers(1, 4),
        keep=shares,
        restarted=st.booleans(),
    )
    def take(
        self,
        consumer: str,
        member: str,
        topics: list[str],
        limit: int,
        keep: list[bool],
        *,
        restarted: bool,
    ) -> None:
        sat = self.model.consumers[consumer].seats.get(member, [])
        incarnation = f"{member}.{len(sat) if restarted or not sat else len(sat) - 1}"
        leases = self.model.consumers[consumer].leases
        mine = sorted(n for n, lease in leases.items() if lease[0] == member)
        held = [n for n, kept in zip(mine, keep, strict=False) if kept] if not restarted else []
        self.check_take(
            take(
                *topics,
                consumer=consumer,
                member=member,
                incarnation=incarnation,
                limit=limit,
                held=held,
            )
        )

    @rule(
        consumer=st.sampled_from(CONSUMERS),
        member=st.sampled_from(MEMBERS),
        age=st.integers(0, 3),
        held=st.lists(st.integers(1, 30), max_size=5, unique=True),
    )
    def take_as_anyone_holding_anything(
        self, consumer: str, member: str, age: int, held: list[int]
    ) -> None:
        known = [n for n in held if n <= len(self.model.records)]
        incarnation = f"{member}.{age}"
        self.check_take(
            take(
                "task",
                consumer=consumer,
                member=member,
                incarnation=incarnation,
                held=[n for n in known if self.model.topic(n) == "task"],
                limit=1,
            )
        )

    def check_take(self, request: Take) -> None:
        expected = self.model.take(request, self.clock())
        if expected is None:
            with pytest.raises(LeaseLostError):
                taken(self.journal, request)
        else:
            assert taken(self.journal, request) == expected

    @rule(
        consumer=st.sampled_from(CONSUMERS),
        member=st.sampled_from(MEMBERS),
        pick=shares,
        topics=st.lists(st.sampled_from(TOPICS), max_size=2),
        age=st.integers(0, 1),
        foreign=st.booleans(),
    )
    def complete(
        self,
        consumer: str,
        member: str,
        pick: list[bool],
        topics: list[str],
        age: int,
        *,
        foreign: bool,
    ) -> None:
        model = self.model.consumers[consumer]
        sat = model.seats.get(member, [])
        leased = sorted(n for n, lease in model.leases.items() if foreign or lease[0] == member)
        chosen = [n for n, picked in zip(leased, pick, strict=False) if picked]
        incarnation = f"{member}.{max(0, len(sat) - 1 - age)}"
        self.check_complete(consumer, member, incarnation, chosen, topics)

    @rule(
        consumer=st.sampled_from(CONSUMERS),
        member=st.sampled_from(MEMBERS),
        sequence=st.integers(1, 30),
    )
    def complete_anything(self, consumer: str, member: str, sequence: int) -> None:
        known = sequence in self.model.held()
        if known and self.model.topic(sequence) in self.model.consumers[consumer].topics:
            sat = self.model.consumers[consumer].seats.get(member, [])
            newest = f"{member}.{max(0, len(sat) - 1)}"
            self.check_complete(consumer, member, newest, [sequence], ["task"])

    def check_complete(
        self, consumer: str, member: str, incarnation: str, chosen: list[int], topics: list[str]
    ) -> None:
        self.written += 1
        request = complete(
            *chosen,
            outputs=self.records(topics),
            consumer=consumer,
            member=member,
            incarnation=incarnation,
            producer=f"{consumer}{incarnation}",
            counter=self.written,
        )
        expected = self.model.complete(request, self.clock())
        if expected is None:
            with pytest.raises(LeaseLostError):
                completed(self.journal, request)
        else:
            assert completed(self.journal, request) == expected
            self.writes[request.receipt.producer] = request, expected

    @rule(share=st.sampled_from([0.3, 0.6, 1.1]))
    def time_passes(self, share: float) -> None:
        self.clock.now_s += share * LEASE_S

    @rule()
    def crash(self) -> None:
        """Continue with the file as it is at this moment, as after a `kill -9`."""
        copy = self.root / str(self.opened + 1)
        copy.mkdir()
        shutil.copy(self.root / str(self.opened) / DATA_FILE, copy)
        self.journal.close()
        self.opened += 1
        self.journal = self.reopened()
        self.model.crash()

    @invariant()
    def the_journal_holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "journal"):
            return
        expected = [(n, self.model.records[n - 1]) for n in self.model.held()]
        found = everything(self.journal)
        assert [(stored.sequence, stored.topic, stored.body) for stored in found] == [
            (n, wanted.topic, wanted.body) for n, wanted in expected
        ]
        with self.journal.snapshot() as state:
            for parity in "01":
                assert [stored.sequence for stored in state.find("parity", parity)] == [
                    n for n, wanted in expected if wanted.keys == (("parity", parity),)
                ]

    @invariant()
    def the_counts_are_right(self) -> None:
        if not hasattr(self, "journal"):
            return
        found = self.journal.statistics().result(WAIT_S)
        assert found.last_sequence == len(self.model.records)
        for name, consumer in self.model.consumers.items():
            unfinished = [
                n
                for n in self.model.held()
                if self.model.topic(n) in consumer.topics and n not in consumer.finished
            ]
            assert found.leased.get(name, 0) == len(consumer.leases)
            assert found.backlog.get(name, 0) == len(unfinished) - len(consumer.leases)


class PowerJournalMachine(JournalMachine):
    durability = "power"


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


TestAnyInterleavingMatchesTheModel = JournalMachine.TestCase
TestAnyInterleavingMatchesTheModel.settings = _settings(60, 40)
TestAnyInterleavingMatchesTheModelAtLevelPower = PowerJournalMachine.TestCase
TestAnyInterleavingMatchesTheModelAtLevelPower.settings = _settings(25, 30)

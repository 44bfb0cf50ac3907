"""Records that nothing needs any more once their rollouts are gone, and those that stay."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from coevolve.curriculum import schedule
from coevolve.curriculum.schedule import Schedule
from coevolve.curriculum.task_pool import TOPICS as POOL_TOPICS
from coevolve.curriculum.task_pool import Pool
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.retention import SPENT, SPENT_EVERY, SPENT_KEPT
from coevolve.journal.snapshots import Snapshots
from coevolve.journal.verification import faults
from coevolve.runs.audit import audit
from coevolve.validation.gates import NoIndex
from coevolve.validation.ledger import Ledger
from protocols.config import RunConfig
from protocols.control import StateSnapshot, UnitsBegan
from protocols.evolution import Parked, ProbeRequest
from protocols.interfaces import Reader
from protocols.journal import Append, Message, Receipt, Record
from protocols.rollouts import FailedRollout
from tests.evolving import BODY, called, discarded, requested, seed, verdict, visit
from tests.journals import WAIT_S, complete, completed, record, take, taken
from tests.pieces import State

GROUP = 8
GROUPS = 400
ANSWERED = GROUP * GROUPS


class Writer:
    """A journal that keeps no rollout that every consumer has finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal.open(folder, retain_bytes=0)
        self._counter = 0

    def reopen(self) -> None:
        """Close the journal and open it again."""
        self.journal.close()
        self.journal = Journal.open(self.folder, retain_bytes=0)

    def write(self, *records: Record) -> tuple[int, ...]:
        """Append records in one transaction."""
        self._counter += 1
        receipt = Receipt(producer="p", counter=self._counter)
        return self.journal.append(Append(records=records, receipt=receipt)).result(WAIT_S)

    def tell(self, *messages: Message) -> tuple[int, ...]:
        """Append messages in one transaction."""
        return self.write(*map(encode, messages))

    def live(self, first: int, groups: int = GROUPS) -> None:
        """Request groups, and answer each request."""
        for group in range(first, first + groups):
            members = [replace(requested(group, "seed-1"), index=index) for index in range(GROUP)]
            answers = [
                FailedRollout(
                    group_id=each.group_id,
                    group=group,
                    index=each.index,
                    group_size=GROUP,
                    task_id=each.task_id,
                    reason="broke",
                    tries=1,
                )
                for each in members
            ]
            self.tell(*members, *answers, discarded(group))

    def cover(self, through: int, number: int = 1, *parts: str) -> None:
        """Write a snapshot of the curriculum, or of other parts."""
        for part in parts or ("curriculum",):
            self.tell(StateSnapshot(part=part, number=number, through=through, form="", states=()))

    def pass_time(self) -> None:
        """Write so many records that the journal looks for spent ones, and drops them."""
        for _ in range(3):
            self.write(*[record("", "note")] * SPENT_EVERY)

    def sequences(self, topic: str) -> list[int]:
        """Return what the journal has of a topic."""
        with self.journal.snapshot() as state:
            return [each.sequence for each in state.scan(topic, limit=1 << 30)]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path / "store")
    yield writer
    writer.journal.close()
    assert not list(faults(writer.folder))


def test_requests_go_after_their_rollouts_once_both_snapshots_go_beyond_them(writer: Writer):
    writer.live(0)
    writer.pass_time()
    assert not writer.sequences("failed_rollout")
    assert len(writer.sequences("rollout_request")) == ANSWERED
    writer.cover(writer.journal.newest(()), 1)
    writer.pass_time()
    assert len(writer.sequences("rollout_request")) == ANSWERED
    beyond = writer.sequences("rollout_request")[100]
    writer.reopen()
    writer.cover(beyond, 2)
    writer.pass_time()
    assert writer.sequences("rollout_request")[0] > beyond
    assert len(writer.sequences("rollout_request")) == ANSWERED - 101


def test_the_newest_requests_stay(writer: Writer):
    writer.live(0)
    newest = writer.sequences("rollout_request")[-SPENT_KEPT:]
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number)
    writer.pass_time()
    writer.pass_time()
    assert writer.sequences("rollout_request") == newest


def test_a_request_newer_than_a_rollout_that_is_left_stays(writer: Writer):
    taken(writer.journal, take("failed_rollout"))
    writer.live(0)
    left, requests = writer.sequences("failed_rollout"), writer.sequences("rollout_request")
    completed(writer.journal, complete(*left[:GROUP]))
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number)
    writer.pass_time()
    assert writer.sequences("failed_rollout") == left[GROUP:]
    newer = [each for each in requests if each > left[GROUP]]
    assert writer.sequences("rollout_request") == newer


def test_a_request_that_a_consumer_has_not_finished_stays(writer: Writer):
    taken(writer.journal, take("rollout_request"))
    writer.live(0)
    requests = writer.sequences("rollout_request")
    completed(writer.journal, complete(*requests[:5]))
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number)
    writer.pass_time()
    assert writer.sequences("rollout_request") == requests[5:]


def test_attempts_stay_while_a_consumer_has_something_older_to_finish(writer: Writer):
    taken(writer.journal, take("signal"))
    (unfinished,) = writer.write(record("", "signal"))
    began = UnitsBegan(consumer="c", member="m", sequences=(unfinished,))
    writer.tell(*[began] * (SPENT_KEPT + 10))
    writer.live(0, 1)
    writer.pass_time()
    assert len(writer.sequences("units_began")) == SPENT_KEPT + 10
    completed(writer.journal, complete(unfinished))
    writer.pass_time()
    assert len(writer.sequences("units_began")) == SPENT_KEPT


def test_summaries_go_once_the_snapshots_of_every_part_that_counts_them_go_beyond(writer: Writer):
    writer.tell(*(replace(visit("seed-1", 1), group=each) for each in range(SPENT_KEPT + 10)))
    writer.live(0, 1)
    through = writer.journal.newest(())
    for part in SPENT["group_summary"].snapshots:
        writer.pass_time()
        assert len(writer.sequences("group_summary")) == SPENT_KEPT + 10
        writer.cover(through, 1, part)
        writer.cover(through, 2, part)
    writer.pass_time()
    assert len(writer.sequences("group_summary")) == SPENT_KEPT


def test_a_summary_stays_while_an_older_request_is_left(writer: Writer):
    taken(writer.journal, take("rollout_request"))
    writer.live(0, 1)
    requests = writer.sequences("rollout_request")
    writer.tell(*(replace(visit("seed-1", 1), group=each) for each in range(SPENT_KEPT + 10)))
    writer.live(1)
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number, *SPENT["group_summary"].snapshots)
    writer.pass_time()
    assert len(writer.sequences("group_summary")) == SPENT_KEPT + 10
    completed(writer.journal, complete(*requests, *writer.sequences("rollout_request")[GROUP:]))
    writer.pass_time()
    assert writer.sequences("rollout_request")[0] > writer.sequences("group_summary")[-1]
    assert len(writer.sequences("group_summary")) == SPENT_KEPT


def test_calls_of_models_stay_while_a_consumer_has_something_older_to_finish(writer: Writer):
    taken(writer.journal, take("signal"))
    (unfinished,) = writer.write(record("", "signal"))
    writer.tell(*[called("s1")] * (SPENT_KEPT + 10))
    writer.live(0, 1)
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number, *SPENT["model_call"].snapshots)
    writer.pass_time()
    assert len(writer.sequences("model_call")) == SPENT_KEPT + 10
    completed(writer.journal, complete(unfinished))
    writer.pass_time()
    assert len(writer.sequences("model_call")) == SPENT_KEPT


def test_requests_of_probes_go_once_both_of_the_validators_snapshots_go_beyond(writer: Writer):
    taken(writer.journal, take("probe_request"))
    asked = writer.tell(*(_probe(each) for each in range(SPENT_KEPT + 10)))
    writer.live(0, 1)
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number, "validator")
    completed(writer.journal, complete(*asked[:4]))
    writer.pass_time()
    assert writer.sequences("probe_request") == list(asked[4:])
    completed(writer.journal, complete(*asked[4:], counter=2))
    writer.pass_time()
    assert writer.sequences("probe_request") == list(asked[10:])


def test_a_parked_candidate_is_probed_again_without_its_first_request(writer: Writer):
    taken(writer.journal, take("probe_request"))
    store = LocalStore(writer.journal)
    working = Ledger(store, NoIndex(), span=1000)
    asyncio.run(working.follow())
    asked = writer.tell(_probe(0), verdict("c0", "s0", Parked(probe_rollouts=1)))[:1]
    asked += writer.tell(*(_probe(each) for each in range(1, SPENT_KEPT + 1)))
    completed(writer.journal, complete(*asked))
    for group in range(2):
        writer.live(group * GROUPS)
        asyncio.run(working.follow())
        writer.tell(*asyncio.run(working.snapshots.due(writer.journal.newest(()))))
    writer.pass_time()
    assert writer.sequences("probe_request") == list(asked[1:])
    again = Ledger(store, NoIndex(), span=1000)
    asyncio.run(again.follow())
    assert [each.probe_id for each in again.parked_until(4)] == ["c0/probe-0"]
    assert again.dump() == working.dump()


def _probe(number: int) -> ProbeRequest:
    return ProbeRequest(
        probe_id=f"c{number}/probe-0",
        candidate_id=f"c{number}",
        body=BODY,
        rollouts=1,
        seed=0,
        policy_version_at_least=0,
    )


def test_nothing_is_spent_before_a_rollout_is_dropped(tmp_path: Path):
    writer = Writer(tmp_path / "store")
    writer.journal.close()
    writer.journal = Journal.open(writer.folder)
    writer.live(0)
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number)
    writer.pass_time()
    assert len(writer.sequences("rollout_request")) == ANSWERED
    writer.journal.close()


def test_a_part_that_starts_again_has_the_state_that_all_requests_gave(writer: Writer):
    config = RunConfig(name="week")

    def curriculum(reader: Reader) -> Snapshots[State]:
        topics = sorted({*schedule.TOPICS, *POOL_TOPICS})
        return Snapshots(
            reader, "curriculum", topics, lambda: State((Schedule(config), Pool(config))), 1000
        )

    store = LocalStore(writer.journal)
    working = curriculum(store)
    asyncio.run(working.restore())
    whole = curriculum(store).new()
    writer.tell(seed())
    whole.fold(seed())
    for span in range(4):
        first = span * GROUPS
        writer.live(first)
        for group in range(first, first + GROUPS):
            whole.fold(requested(group, "seed-1"))
            whole.fold(discarded(group))
        writer.tell(*asyncio.run(working.due(writer.journal.newest(()))))
    writer.pass_time()
    assert len(writer.sequences("rollout_request")) < 3 * ANSWERED
    state, _ = asyncio.run(curriculum(store).folded())
    assert _dumped(state) == _dumped(whole)


def _dumped(state: State) -> Sequence[object]:
    return [piece.dump() for piece in state.pieces]


def test_an_audit_of_a_journal_without_its_oldest_requests_finds_no_fault(writer: Writer):
    taken(writer.journal, take("failed_rollout"))
    writer.live(0)
    answers = writer.sequences("failed_rollout")
    completed(writer.journal, complete(*answers[:-3]))
    for number in (1, 2):
        writer.cover(writer.journal.newest(()), number)
    writer.pass_time()
    found = asyncio.run(audit(LocalStore(writer.journal)))
    assert not found.faults
    assert found.requests == SPENT_KEPT
    assert found.deleted == 2 * ANSWERED - 3 - SPENT_KEPT


def test_no_rollout_goes_before_an_older_one_of_another_topic(writer: Writer):
    taken(writer.journal, take("rollout"))
    (older,) = writer.write(record("", "rollout"))
    (newer,) = writer.write(record("", "failed_rollout"))
    writer.write(record("", "note"))
    assert writer.sequences("failed_rollout") == [newer]
    completed(writer.journal, complete(older))
    writer.write(record("", "note"))
    assert not writer.sequences("rollout")
    assert not writer.sequences("failed_rollout")

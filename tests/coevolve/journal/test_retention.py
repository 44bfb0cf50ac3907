"""Records that nothing needs any more once their rollouts are gone, and those that stay."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from coevolve.curriculum import schedule
from coevolve.curriculum.schedule import Schedule
from coevolve.curriculum.task_pool import TOPICS as POOL_TOPICS
from coevolve.curriculum.task_pool import Pool
from coevolve.history import costs, evolution_totals, group_totals, progress
from coevolve.journal.codec import (
    CANDIDATES_BY_ID,
    SNAPSHOTS_BY_PART,
    TASKS_BY_ID,
    decode,
    encode,
    topic_of,
)
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.retention import SPENT, SPENT_AGAIN, SPENT_EVERY, SPENT_KEPT
from coevolve.journal.snapshots import Snapshots
from coevolve.journal.verification import faults
from coevolve.learning import guard, recorded_checkpoints
from coevolve.learning.recorded_checkpoints import checkpoint_snapshots
from coevolve.llm import call_totals
from coevolve.runs.audit import audit
from coevolve.validation import ledger
from coevolve.validation.gates import NoIndex
from coevolve.validation.ledger import Ledger
from protocols.config import RunConfig
from protocols.control import StateSnapshot, UnitsBegan
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    Exploration,
    Parked,
    ProbeReport,
    ProbeRequest,
    Signal,
    SignalSettled,
)
from protocols.interfaces import Reader
from protocols.journal import Append, Message, Receipt, Record
from protocols.learning import (
    CanaryScores,
    Checkpoint,
    EngineAsleep,
    Evaluation,
    PolicyVersion,
    ScoreReport,
    ScoreRequest,
    TurnBegan,
    TurnEnded,
    WeightsVerified,
)
from protocols.rollouts import FailedRollout
from protocols.tasks import Task
from tests.evolving import (
    BODY,
    admission,
    called,
    candidate,
    discarded,
    exploration,
    probed,
    requested,
    seed,
    settled,
    signal,
    stepped,
    verdict,
    visit,
)
from tests.journals import WAIT_S, complete, completed, record, take, taken
from tests.pieces import State

GROUP = 8
GROUPS = 400
FEW = 3
LINEAGE = (
    *("signal", "exploration", "candidate", "probe_report", "task", "candidate_verdict"),
    "signal_settled",
)
ANSWERED = GROUP * GROUPS


class Writer:
    """A journal that keeps no rollout that every consumer has finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = self.opened()
        self._counter = 0

    def reopen(self) -> None:
        """Close the journal and open it again."""
        self.journal.close()
        self.journal = self.opened()

    def opened(self, retain_records: int = SPENT_KEPT) -> Journal:
        """Open the journal."""
        return Journal.open(self.folder, retain_bytes=0, retain_records=retain_records)

    def keep_few(self) -> None:
        """Open the journal again, so that it keeps `FEW` records of each topic."""
        self.journal.close()
        self.journal = self.opened(FEW)

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

    def cover(
        self, through: int, number: int = 1, *parts: str, keeps: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Write a snapshot of the curriculum, or of other parts, that names what it keeps."""
        for part in parts or ("curriculum",):
            self.tell(
                StateSnapshot(
                    part=part,
                    number=number,
                    through=through,
                    form="",
                    states=(),
                    keeps=tuple(keeps),
                )
            )

    def cover_all(self, *keeps: tuple[str, str]) -> None:
        """Write two snapshots of every part."""
        parts = sorted({part for needs in SPENT.values() for part in needs.snapshots})
        through = self.journal.newest(())
        for number in (1, 2):
            self.cover(through, number, *parts, keeps=keeps)

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


FOLDED: dict[str, Sequence[str]] = {
    "curriculum": (*schedule.TOPICS, *schedule.CYCLE_TOPICS, *POOL_TOPICS),
    "signals": ("group_summary", "signal"),
    "validator": tuple({*ledger.TOPICS} - {"group_summary"}),
    "learner's checkpoints": recorded_checkpoints.TOPICS,
    "learner's guard": guard.TOPICS,
    "launcher's calls": call_totals.TOPICS,
    "launcher's costs": costs.TOPICS,
    "launcher's groups": group_totals.TOPICS,
    "launcher's progress": progress.TOPICS,
    "launcher's totals": evolution_totals.TOPICS,
}
"""Topics that each part with snapshots folds, and whose records wait for these snapshots."""


@pytest.mark.parametrize("part", FOLDED)
def test_no_record_goes_that_a_part_may_have_to_fold_again(part: str):
    waiting = {topic for topic, needs in SPENT.items() if part in needs.snapshots}
    assert waiting >= {topic for topic in FOLDED[part] if topic in SPENT}


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
    working = Ledger(store, NoIndex(), 100, span=1000)
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
    again = Ledger(store, NoIndex(), 100, span=1000)
    asyncio.run(again.follow())
    assert [each.probe_id for each in again.parked_until(4)] == ["c0/probe-0"]
    assert again.state == working.state


def version(number: int, *, kept: bool = False) -> PolicyVersion:
    return PolicyVersion(
        version=number, path=f"v_{number}", format="full", digest="d", size_bytes=1, kept=kept
    )


def verified(number: int) -> WeightsVerified:
    return WeightsVerified(
        engine="rollout-0",
        version=number,
        digest="d",
        max_abs_difference=0.0,
        wall_s=0.1,
        pause_s=0.0,
        proven_ns=0,
    )


def checkpoint(number: int, *replaces: int) -> Checkpoint:
    return Checkpoint(
        step=number, path=f"step_{number}", digest="d", size_bytes=1, kept=False, replaces=replaces
    )


MADE: Sequence[Callable[[int], Message]] = (
    lambda number: discarded(GROUPS + number),
    lambda number: version(number + 1),
    lambda number: checkpoint(number, *range(max(0, number - 1), number)),
    verified,
    lambda number: ScoreRequest(version=number, task_id="h"),
    lambda number: ScoreReport(version=number, task_id="h", score=None),
    lambda number: Evaluation(version=number, scores=(), errors=0, wall_s=0.0),
    lambda number: CanaryScores(version=number, scores=(), errors=0),
    lambda number: TurnBegan(step=number),
    lambda number: EngineAsleep(engine="rollout-0", turn=number),
    lambda _: TurnEnded(),
)


@pytest.mark.parametrize("made", MADE, ids=lambda made: topic_of(type(made(1))))
def test_what_comes_with_each_version_goes_with_the_rollouts(
    writer: Writer, made: Callable[[int], Message]
):
    written = writer.tell(*(made(number) for number in range(20)))
    topic = topic_of(type(made(1)))
    writer.pass_time()
    assert writer.sequences(topic) == list(written)
    writer.live(0, 1)
    writer.keep_few()
    writer.pass_time()
    if SPENT[topic].snapshots:
        assert writer.sequences(topic)[: len(written)] == list(written)
    writer.cover_all()
    _pass_twice(writer)
    assert len(writer.sequences(topic)) == FEW
    assert not asyncio.run(audit(LocalStore(writer.journal))).faults


def test_the_first_version_and_those_that_are_scored_or_have_a_checkpoint_stay(writer: Writer):
    messages = [version(number, kept=number % 5 == 0) for number in range(20)]
    written = writer.tell(*messages, checkpoint(6), checkpoint(7), checkpoint(8, 6))
    writer.live(0, 1)
    writer.keep_few()
    snapshots = checkpoint_snapshots(LocalStore(writer.journal))
    keeps = list(asyncio.run(snapshots.folded())[0].keeps)
    writer.cover_all(*keeps)
    _pass_twice(writer)
    left = [0, 5, 7, 8, 10, 15, 17, 18, 19]
    assert writer.sequences("policy_version") == [written[number] for number in left]


def test_scores_stay_while_their_version_is_not_finished(writer: Writer):
    taken(writer.journal, take("policy_version"))
    (scored,) = writer.tell(version(1, kept=True))
    tasks = [f"h{number}" for number in range(20)]
    asked = writer.tell(*(ScoreRequest(version=1, task_id=each) for each in tasks))
    told = writer.tell(*(ScoreReport(version=1, task_id=each, score=None) for each in tasks))
    writer.live(0, 1)
    writer.keep_few()
    writer.pass_time()
    assert writer.sequences("score_request") == list(asked)
    assert writer.sequences("score_report") == list(told)
    completed(writer.journal, complete(scored))
    _pass_twice(writer)
    assert writer.sequences("score_request") == list(asked[-FEW:])
    assert writer.sequences("score_report") == list(told[-FEW:])


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
            reader, "curriculum", topics, lambda: State((Schedule.of(config), Pool(config))), 1000
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


def evolved(number: int) -> tuple[Message, ...]:
    """Return what the loop records about one task."""
    cause, made = f"s{number}", f"c{number}"
    return (
        signal(cause),
        exploration(f"e-{cause}", cause),
        candidate(made, cause),
        probed(made, 1),
        *admission(made, cause, f"m{number}"),
        settled(cause, 1),
    )


def lineages(writer: Writer) -> dict[str, list[int]]:
    """Return by topic the numbers of the tasks about which the journal has a record."""
    with writer.journal.snapshot() as state:
        return {
            topic: [
                _number(message)
                for each in state.scan(topic, limit=1 << 30)
                if (message := decode(each)) != seed()
            ]
            for topic in LINEAGE
        }


def _number(message: Message) -> int:
    match message:
        case Task(task_id=name):
            return int(name[1:])
        case Candidate(candidate_id=name) | CandidateVerdict(candidate_id=name):
            return int(name[1:])
        case ProbeReport(candidate_id=name):
            return int(name[1:])
        case Signal(signal_id=name) | SignalSettled(signal_id=name) | Exploration(signal_id=name):
            return int(name[1:])
        case other:
            raise AssertionError(other)


def test_lineages_go_when_their_tasks_left_the_pool_but_for_the_newest(writer: Writer):
    writer.tell(seed(), *(each for number in range(20) for each in evolved(number)))
    writer.live(0, 1)
    writer.keep_few()
    writer.cover_all((TASKS_BY_ID, "m4"))
    _pass_twice(writer)
    assert lineages(writer) == {topic: [4, 17, 18, 19] for topic in LINEAGE}
    assert len(writer.sequences("task")) == 5  # with the seed
    writer.cover_all()
    _pass_twice(writer)
    assert lineages(writer) == {topic: [17, 18, 19] for topic in LINEAGE}


def _pass_twice(writer: Writer) -> None:
    """Let the journal look again at the records that something needed."""
    for _ in range(2 * SPENT_AGAIN // (3 * SPENT_EVERY)):
        writer.pass_time()


def test_lineages_stay_without_the_snapshots_of_the_parts_that_fold_them(writer: Writer):
    writer.tell(*(each for number in range(20) for each in evolved(number)))
    writer.live(0, 1)
    writer.keep_few()
    writer.cover(writer.journal.newest(()), 1)
    writer.cover(writer.journal.newest(()), 2)
    _pass_twice(writer)
    found = lineages(writer)
    assert found.pop("exploration") == list(range(20))
    assert set(map(tuple, found.values())) == {tuple(range(20))}


def test_a_candidate_that_is_probed_or_not_judged_stays_with_its_signal(writer: Writer):
    parked = verdict("c0", "s0", Parked(probe_rollouts=1))
    writer.tell(signal("s0"), candidate("c0", "s0"), parked, signal("s1"), candidate("c1", "s1"))
    writer.tell(*(each for number in range(2, 20) for each in evolved(number)))
    writer.live(0, 1)
    writer.keep_few()
    writer.cover_all((CANDIDATES_BY_ID, "c0"))
    _pass_twice(writer)
    found = lineages(writer)
    assert found["signal"] == found["candidate"] == [0, 1, 17, 18, 19]
    assert found["candidate_verdict"] == [0, 17, 18, 19]


@pytest.mark.parametrize("about", [stepped(1, "m0"), visit("m0", 1)])
def test_a_task_stays_while_there_is_a_record_about_it(writer: Writer, about: Message):
    writer.tell(*(each for number in range(20) for each in evolved(number)))
    writer.tell(about)
    writer.live(0, 1)
    writer.keep_few()
    writer.cover_all()
    _pass_twice(writer)
    assert lineages(writer)["task"] == [0, 17, 18, 19]
    writer.tell(*(stepped(step, "seed-1") for step in range(2, 9)))
    writer.tell(*(visit("seed-1", 1, version) for version in range(1, 9)))
    writer.live(1, 1)
    writer.cover_all()
    _pass_twice(writer)
    assert lineages(writer)["task"] == [17, 18, 19]


def test_a_snapshot_that_names_nothing_lets_nothing_go(writer: Writer):
    """Snapshots of earlier versions say nothing about the records that their parts read."""
    writer.tell(*(each for number in range(20) for each in evolved(number)))
    writer.live(0, 1)
    writer.keep_few()
    writer.cover_all()
    writer.cover_all()
    old = {"type": "state_snapshot", "part": "validator", "number": 3, "through": 1 << 40}
    body = msgspec.msgpack.encode({**old, "form": "", "states": []})
    writer.write(
        Record(topic="state_snapshot", body=body, keys=((SNAPSHOTS_BY_PART, "validator"),))
    )
    _pass_twice(writer)
    assert lineages(writer)["task"] == list(range(20))


async def test_an_audit_of_a_journal_without_its_oldest_lineages_finds_no_fault(writer: Writer):
    writer.tell(*(each for number in range(20) for each in evolved(number)))
    writer.tell(*(stepped(step, "seed-1") for step in range(1, 20)))
    writer.live(0, 1)
    writer.keep_few()
    writer.cover_all()
    _pass_twice(writer)
    assert len(writer.sequences("step_report")) == FEW
    assert not (await audit(LocalStore(writer.journal))).faults


def _dumped(state: State) -> Sequence[object]:
    return [piece.state for piece in state.pieces]


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

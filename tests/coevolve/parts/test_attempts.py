"""How attempts at foreign work are counted, and in which order a process begins them."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from coevolve.journal.codec import topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import Mailbox
from coevolve.parts.attempts import (
    KILLED,
    REASON_CHARS,
    SUSPECTS,
    AttemptQueue,
    Attempts,
    RetriesExhausted,
    WorkItem,
    reason_of,
    subject_of,
)
from protocols.config import RunConfig, WatchdogConfig
from protocols.control import DeadLetter, LetterAnswered, LetterRetried
from protocols.errors import EndpointError, GeneratorError
from protocols.journal import Message
from protocols.learning import ScoreRequest
from protocols.rollouts import RolloutRequest
from tests.evolving import candidate, probed, requested, signal
from tests.scripted import add, everything

ATTEMPTS = 3
CONFIG = RunConfig(name="test", watchdog=WatchdogConfig(attempts=ATTEMPTS))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path)
    yield LocalStore(journal)
    journal.close()


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("coevolve.parts.attempts.PAUSE_S", 0.001)


def process(store: LocalStore, consumer: str = "rollout") -> Attempts:
    """Return the attempts of a new process of one part."""
    mailbox = Mailbox(
        store,
        consumer=consumer,
        topics=(topic_of(RolloutRequest), topic_of(LetterRetried)),
        member="r",
        lease_s=60.0,
    )
    return Attempts(mailbox, CONFIG, store)


def request(group: int, index: int = 0) -> RolloutRequest:
    return msgspec.structs.replace(requested(group, "seed-1"), index=index)


async def taken(store: LocalStore) -> tuple[Attempts, list[WorkItem]]:
    """Return what a new process takes."""
    attempts = process(store)
    return attempts, await attempts.take(100, 5.0)


async def test_attempts_of_dead_processes_count_and_those_of_stopped_ones_do_not(
    store: LocalStore,
):
    await add(store, request(0))
    expected = 0
    for ends in ("dies", "stops", "dies", "dies", "dies"):
        attempts, [item] = await taken(store)
        assert attempts.count(item) == expected
        assert attempts.is_last(item) == (expected >= ATTEMPTS - 1)
        assert not attempts.is_spent(item)
        await attempts.begin(item)
        assert attempts.count(item) == expected + 1
        if ends == "stops":
            await attempts.release()
        expected += ends == "dies"
    attempts, [item] = await taken(store)
    assert attempts.is_spent(item)
    (letter,) = await attempts.outcome_of(item, lambda: never())
    assert isinstance(letter, DeadLetter)
    assert (letter.consumer, letter.sequence, letter.reason) == ("rollout", item.sequence, KILLED)
    assert (letter.subject, letter.attempts) == ("0", ATTEMPTS + 1)


async def never() -> tuple[()]:
    raise AssertionError("no further attempt may be made")


async def test_a_stop_takes_back_no_attempt_that_raised(store: LocalStore):
    await add(store, request(0), request(1))
    attempts, [raised, put_back] = await taken(store)
    for item in (raised, put_back):
        await attempts.begin(item)
    attempts.failed(raised)
    await attempts.put_back(put_back)
    assert [attempts.count(each) for each in (raised, put_back)] == [1, 0]
    await attempts.release()
    attempts, again = await taken(store)
    assert [attempts.count(each) for each in again] == [1, 0]


async def test_each_consumer_counts_its_own_attempts(store: LocalStore):
    await add(store, request(0))
    mine, other = process(store), process(store, "learner")
    [item], _ = await mine.take(1, 5.0), await other.take(1, 5.0)
    await other.begin(item)
    await mine.recall([item])
    assert mine.count(item) == 1  # the one that was recorded when it was taken


async def test_the_errors_of_the_part_itself_end_it_and_others_are_tried_again(
    store: LocalStore,
):
    await add(store, request(0))
    attempts, [item] = await taken(store)
    with pytest.raises(GeneratorError):
        await attempts.attempted(item, lambda: raising(GeneratorError("the engine broke")))
    tries: list[int] = []

    async def work() -> tuple[RolloutRequest, ...]:
        tries.append(len(tries))
        if len(tries) < 2:
            raise ValueError("once")
        return (request(9),)

    assert await attempts.outcome_of(item, work) == (request(9),)
    assert attempts.count(item) == 3


async def test_attempts_that_raised_stay_counted_after_a_stop(store: LocalStore):
    await add(store, request(0))
    attempts, [item] = await taken(store)
    with pytest.raises(RetriesExhausted, match="ValueError: always"):
        await attempts.attempted(item, lambda: raising(ValueError("always")))
    await attempts.release()
    attempts, [item] = await taken(store)
    assert attempts.count(item) == ATTEMPTS


async def raising(error: Exception) -> tuple[()]:
    raise error


async def test_a_retry_is_answered_in_place_of_a_second_dead_letter(store: LocalStore):
    [sequence] = await add(store, request(0))
    attempts, [item] = await taken(store)
    retry = item._replace(retry_of=77)
    assert attempts.finished(item, (request(1), signal("s"))) == (request(1), signal("s"))
    *outputs, answer = attempts.finished(retry, (signal("s"), request(1), signal("t")))
    assert len(outputs) == 3
    assert answer == LetterAnswered(letter=77, done=True, outcome="rollout_request, signal")
    assert attempts.finished(retry, ()) == (
        LetterAnswered(letter=77, done=True, outcome="nothing to record"),
    )
    refused = (LetterAnswered(letter=77, done=False, outcome="why"),)
    assert attempts.dead_letter(retry, "why", (signal("s"),)) == refused
    assert attempts.skipped(retry, "why", (signal("s"),)) == refused
    assert attempts.skipped(item, "why", (signal("s"),)) == (signal("s"),)
    output, letter = attempts.dead_letter(item, "why", (signal("s"),))
    assert output == signal("s")
    assert isinstance(letter, DeadLetter)
    assert letter.unit == "rollout request: group_id g0, index 0, task_id seed-1"
    assert (letter.sequence, letter.attempts) == (sequence, 0)


async def test_a_retry_leads_to_its_own_record_and_to_nobody_elses(store: LocalStore):
    [sequence] = await add(store, request(3))
    attempts, [item] = await taken(store)
    await add(
        store,
        LetterRetried(letter=70, consumer="rollout", sequence=sequence),
        LetterRetried(letter=71, consumer="learner", sequence=sequence),
        LetterRetried(letter=72, consumer="rollout", sequence=10**6),
    )
    [again] = await attempts.take(100, 5.0)
    assert (again.message, again.retry_of) == (item.message, 70)
    assert again.sequence > sequence  # its own record is finished with the retry
    (answer,) = await everything(store, "letter_answered", LetterAnswered)
    assert (answer.letter, answer.done) == (72, False)
    _, left = await taken(store)
    assert {each.retry_of for each in left} == {0, 70}


@pytest.mark.parametrize("concurrent", [1, 4, 12])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_a_unit_at_its_last_attempt_is_alone_and_suspects_are_few(
    store: LocalStore, concurrent: int, seed: int, is_late: bool
):
    chance = random.Random(seed)
    before = {number: chance.randrange(ATTEMPTS) for number in range(30)}
    await add(store, *(request(number // 8, number % 8) for number in before))
    for death in range(ATTEMPTS - 1):
        attempts, all_taken = await taken(store)
        for item, count in zip(all_taken, before.values(), strict=True):
            if count > death:
                await attempts.begin(item)
            elif not attempts.count(item):
                await attempts.put_back(item)  # the attempt that was recorded when it was taken
    attempts, all_taken = await taken(store)
    assert [attempts.count(item) for item in all_taken] == [*before.values()]
    queue = AttemptQueue(attempts, concurrent)
    chance.shuffle(all_taken)
    late = all_taken[: 10 * is_late]
    queue.add(all_taken[len(late) :])
    live: list[WorkItem] = []
    begun: list[WorkItem] = []
    while live or queue or late:
        if late and (live or not queue):
            queue.add([late.pop()])
        while item := queue.begin_next():
            live.append(item)
            begun.append(item)
            suspects = [each for each in live if attempts.count(each)]
            assert len(suspects) <= max(1, concurrent // SUSPECTS)
            assert len(live) <= concurrent
            assert len(live) == 1 or not any(map(attempts.is_last, live))
        queue.ended(live.pop(chance.randrange(len(live))))
    assert sorted(each.sequence for each in begun) == sorted(each.sequence for each in all_taken)
    last = [index_of(each) for each in begun if attempts.is_last(each)]
    assert is_late or last == sorted(last)  # the first members of each group come first


def index_of(item: WorkItem) -> int:
    assert isinstance(item.message, RolloutRequest)
    return item.message.index


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        (candidate("c", "s"), "c"),
        (probed("c", 0), "c"),
        (signal("s"), "s"),
        (request(12, 3), "12"),
        (ScoreRequest(version=1, task_id="t"), ""),
    ],
)
def test_a_unit_is_about_its_candidate_its_signal_or_its_group(message: Message, subject: str):
    assert subject_of(message) == subject


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EndpointError("no\nroute"), "no route"),
        (ValueError("too\x1b[31m deep"), "ValueError: too [31m deep"),
        (ExceptionGroup("a", [ExceptionGroup("b", [KeyError("c")])]), "KeyError: 'c'"),
        (ValueError(""), "ValueError: "),
    ],
)
def test_a_reason_is_one_printable_line_of_the_first_error(error: Exception, reason: str):
    assert reason_of(error) == reason


def test_a_reason_has_a_bounded_length():
    assert reason_of(EndpointError("x" * REASON_CHARS)) == "x" * REASON_CHARS
    assert reason_of(EndpointError("x" * 10**6)) == "x" * REASON_CHARS + "..."

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
from coevolve.parts.units import (
    KILLED,
    REASON_CHARS,
    SUSPECTS,
    SpoiltUnitError,
    Unit,
    UnitQueue,
    Units,
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
    monkeypatch.setattr("coevolve.parts.units.PAUSE_S", 0.001)


def process(store: LocalStore, consumer: str = "rollout") -> Units:
    """Return the units of a new process of one part."""
    mailbox = Mailbox(
        store,
        consumer=consumer,
        topics=(topic_of(RolloutRequest), topic_of(LetterRetried)),
        member="r",
        lease_s=60.0,
    )
    return Units(mailbox, CONFIG, store)


def request(group: int, index: int = 0) -> RolloutRequest:
    return msgspec.structs.replace(requested(group, "seed-1"), index=index)


async def taken(store: LocalStore) -> tuple[Units, list[Unit]]:
    """Return what a new process takes."""
    units = process(store)
    return units, await units.take(100, 5.0)


async def test_attempts_of_dead_processes_count_and_those_of_stopped_ones_do_not(
    store: LocalStore,
):
    await add(store, request(0))
    expected = 0
    for ends in ("dies", "stops", "dies", "dies"):
        units, [unit] = await taken(store)
        assert units.attempts(unit) == expected
        assert units.is_last(unit) == (expected == ATTEMPTS - 1)
        assert not units.is_spent(unit)
        await units.begin(unit)
        assert units.attempts(unit) == expected + 1
        if ends == "stops":
            await units.release()
        expected += ends == "dies"
    units, [unit] = await taken(store)
    assert units.is_spent(unit)
    (letter,) = await units.settled(unit, lambda: never())
    assert isinstance(letter, DeadLetter)
    assert (letter.consumer, letter.sequence, letter.reason) == ("rollout", unit.sequence, KILLED)
    assert (letter.subject, letter.attempts) == ("0", ATTEMPTS)


async def never() -> tuple[()]:
    raise AssertionError("no further attempt may be made")


async def test_a_stop_takes_back_no_attempt_that_raised(store: LocalStore):
    await add(store, request(0), request(1))
    units, [raised, put_back] = await taken(store)
    for unit in (raised, put_back):
        await units.begin(unit)
    units.failed(raised)
    await units.put_back(put_back)
    assert [units.attempts(each) for each in (raised, put_back)] == [1, 0]
    await units.release()
    units, again = await taken(store)
    assert [units.attempts(each) for each in again] == [1, 0]


async def test_each_consumer_counts_its_own_attempts(store: LocalStore):
    await add(store, request(0))
    mine, other = process(store), process(store, "learner")
    [unit], _ = await mine.take(1, 5.0), await other.take(1, 5.0)
    await other.begin(unit)
    await mine.recall([unit])
    assert mine.attempts(unit) == 1  # the one that was recorded when it was taken


async def test_the_errors_of_the_part_itself_end_it_and_others_are_tried_again(
    store: LocalStore,
):
    await add(store, request(0))
    units, [unit] = await taken(store)
    with pytest.raises(GeneratorError):
        await units.attempted(unit, lambda: raising(GeneratorError("the engine broke")))
    tries: list[int] = []

    async def work() -> tuple[RolloutRequest, ...]:
        tries.append(len(tries))
        if len(tries) < 2:
            raise ValueError("once")
        return (request(9),)

    assert await units.settled(unit, work) == (request(9),)
    assert units.attempts(unit) == 3


async def test_attempts_that_raised_stay_counted_after_a_stop(store: LocalStore):
    await add(store, request(0))
    units, [unit] = await taken(store)
    with pytest.raises(SpoiltUnitError, match="ValueError: always"):
        await units.attempted(unit, lambda: raising(ValueError("always")))
    await units.release()
    units, [unit] = await taken(store)
    assert units.attempts(unit) == ATTEMPTS


async def raising(error: Exception) -> tuple[()]:
    raise error


async def test_a_retry_is_answered_in_place_of_a_second_dead_letter(store: LocalStore):
    [sequence] = await add(store, request(0))
    units, [unit] = await taken(store)
    retry = unit._replace(letter=77)
    assert units.done(unit, (request(1), signal("s"))) == (request(1), signal("s"))
    *outputs, answer = units.done(retry, (signal("s"), request(1), signal("t")))
    assert len(outputs) == 3
    assert answer == LetterAnswered(letter=77, done=True, outcome="rollout_request, signal")
    assert units.done(retry, ()) == (
        LetterAnswered(letter=77, done=True, outcome="nothing to record"),
    )
    refused = (LetterAnswered(letter=77, done=False, outcome="why"),)
    assert units.given_up(retry, "why", (signal("s"),)) == refused
    assert units.left_out(retry, "why", (signal("s"),)) == refused
    assert units.left_out(unit, "why", (signal("s"),)) == (signal("s"),)
    output, letter = units.given_up(unit, "why", (signal("s"),))
    assert output == signal("s")
    assert isinstance(letter, DeadLetter)
    assert letter.unit == "rollout request: group_id g0, index 0, task_id seed-1"
    assert (letter.sequence, letter.attempts) == (sequence, 0)


async def test_a_retry_leads_to_its_own_record_and_to_nobody_elses(store: LocalStore):
    [sequence] = await add(store, request(3))
    units, [unit] = await taken(store)
    await add(
        store,
        LetterRetried(letter=70, consumer="rollout", sequence=sequence),
        LetterRetried(letter=71, consumer="learner", sequence=sequence),
        LetterRetried(letter=72, consumer="rollout", sequence=10**6),
    )
    [again] = await units.take(100, 5.0)
    assert (again.message, again.letter) == (unit.message, 70)
    assert again.sequence > sequence  # its own record is finished with the retry
    (answer,) = await everything(store, "letter_answered", LetterAnswered)
    assert (answer.letter, answer.done) == (72, False)
    _, left = await taken(store)
    assert {each.letter for each in left} == {0, 70}


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
        units, all_taken = await taken(store)
        for unit, count in zip(all_taken, before.values(), strict=True):
            if count > death:
                await units.begin(unit)
            elif not units.attempts(unit):
                await units.put_back(unit)  # the attempt that was recorded when it was taken
    units, all_taken = await taken(store)
    assert [units.attempts(unit) for unit in all_taken] == [*before.values()]
    queue = UnitQueue(units, concurrent)
    chance.shuffle(all_taken)
    late = all_taken[: 10 * is_late]
    queue.add(all_taken[len(late) :])
    live: list[Unit] = []
    begun: list[Unit] = []
    while live or queue or late:
        if late and (live or not queue):
            queue.add([late.pop()])
        while unit := queue.begin_next():
            live.append(unit)
            begun.append(unit)
            suspects = [each for each in live if units.attempts(each)]
            assert len(suspects) <= max(1, concurrent // SUSPECTS)
            assert len(live) <= concurrent
            assert len(live) == 1 or not any(map(units.is_last, live))
        queue.ended(live.pop(chance.randrange(len(live))))
    assert sorted(each.sequence for each in begun) == sorted(each.sequence for each in all_taken)
    last = [index_of(each) for each in begun if units.is_last(each)]
    assert is_late or last == sorted(last)  # the first members of each group come first


def index_of(unit: Unit) -> int:
    assert isinstance(unit.message, RolloutRequest)
    return unit.message.index


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

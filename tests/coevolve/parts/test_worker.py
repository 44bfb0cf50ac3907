"""How a worker takes records, lets handlers answer them, and writes what came of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from coevolve.journal.codec import topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.parts.attempts import Outcome, WorkItem
from coevolve.parts.pace import PACES
from coevolve.parts.worker import Dispatcher, Handler, Worker
from protocols.config import RunConfig, WatchdogConfig
from protocols.control import DeadLetter, LetterAnswered, LetterRetried
from protocols.errors import GeneratorError
from protocols.journal import Message
from protocols.learning import ScoreReport, ScoreRequest
from tests.contexts import context_of
from tests.scripted import add, everything, until

CONFIG = RunConfig(name="test", watchdog=WatchdogConfig(attempts=3))
WAIT_S = 10.0

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path)
    yield LocalStore(journal)
    journal.close()


def request(number: int) -> ScoreRequest:
    return ScoreRequest(version=number, task_id=f"task-{number}")


def report(asked: ScoreRequest) -> ScoreReport:
    return ScoreReport(version=asked.version, task_id=asked.task_id, score=None)


def worker(store: LocalStore) -> Worker:
    return Worker("scoring", context_of(CONFIG, store), "w", (ScoreRequest, LetterRetried))


class Room:
    """A part with one handler, whose items wait until they are let go; it notes what happens."""

    def __init__(
        self,
        store: LocalStore,
        *,
        concurrent: int = 2,
        held: int = 2,
        is_urgent: Callable[[Message, Sequence[Message]], bool] = lambda message, others: False,
        writes_retried: bool = True,
    ) -> None:
        self.worker = worker(store)
        self.began: list[int] = []
        self.raises: dict[int, list[Exception]] = {}
        self.may = asyncio.Event()
        self.may.set()
        self.says: Callable[[ScoreRequest], Outcome] = lambda asked: (report(asked),)
        self.finishes = False
        self._dispatcher = Dispatcher(
            self.worker,
            {ScoreRequest: Handler(self._score, lambda asked, reason, attempts: (report(asked),))},
            concurrent=concurrent,
            take_limit=100,
            held=held,
            activity=lambda live, is_full: f"{live} live{', full' * is_full}",
            is_urgent=is_urgent,
            writes_retried=writes_retried,
        )

    async def _score(self, asked: ScoreRequest, item: WorkItem) -> Outcome:
        self.began.append(asked.version)
        await self.may.wait()
        if errors := self.raises.get(asked.version):
            raise errors.pop()
        if self.finishes:
            await self.worker.mailbox.complete((item.sequence,), self.says(asked))
            return ()
        return self.says(asked)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            await self._dispatcher.serve(group)

    async def run(self) -> None:
        await self.worker.run(self._work)

    @asynccontextmanager
    async def at_work(self):
        """Let it work, and stop it cleanly at the end."""
        running = asyncio.create_task(self.run())
        try:
            yield
        finally:
            await self.worker.stop()
            await asyncio.wait_for(running, WAIT_S)


async def reports(store: LocalStore, count: int) -> list[int]:
    """Return the versions of all reports, once there are ``count``."""
    topic, seen = topic_of(ScoreReport), 0
    async with asyncio.timeout(WAIT_S):
        while len(found := await everything(store, topic, ScoreReport)) < count:
            seen = await store.wait((topic,), seen, WAIT_S)
    return [each.version for each in found]


async def backlog(store: LocalStore) -> int:
    return (await store.statistics()).backlog.get("scoring", 0)


async def test_each_record_is_finished_with_its_outcome_and_counted(store: LocalStore):
    await add(store, *map(request, range(9)))
    room = Room(store)
    async with room.at_work():
        assert sorted(await reports(store, 9)) == list(range(9))
        await until(lambda: room.worker.status().done == 9)
    assert sorted(room.began) == list(range(9))
    assert (await backlog(store), room.worker.status().mailbox) == (0, 0)


@pytest.mark.parametrize(("concurrent", "held"), [(1, 1), (1, 3), (2, 2), (3, 7)])
async def test_no_more_is_held_or_in_work_than_may_be(
    store: LocalStore, concurrent: int, held: int
):
    await add(store, *map(request, range(10)))
    room = Room(store, concurrent=concurrent, held=held)
    room.may.clear()
    async with room.at_work():
        await until(lambda: len(room.began) == concurrent)
        await asyncio.sleep(0.1)
        assert len(room.began) == concurrent
        assert room.worker.status().mailbox <= held
        assert room.worker.status().mailbox >= concurrent
        room.may.set()
        await reports(store, 10)


async def test_work_on_what_another_member_has_taken_over_is_dropped(store: LocalStore):
    await add(store, request(0), request(1))
    first, second = worker(store), worker(store)
    lost, _ = await first.attempts.take(2, WAIT_S)
    (again, kept) = await second.attempts.take(2, WAIT_S)
    assert not await first.hand_in(lost, (report(request(0)),))
    assert await everything(store, topic_of(ScoreReport), ScoreReport) == []
    assert first.status().done == 0
    for item in (again, kept):
        assert isinstance(item.message, ScoreRequest)
        assert await second.hand_in(item, (report(item.message),))
    assert await reports(store, 2) == [0, 1]
    assert second.status().done == 2


async def test_what_a_handler_has_finished_itself_is_not_written_again(store: LocalStore):
    await add(store, *map(request, range(3)))
    room = Room(store)
    room.finishes = True
    async with room.at_work():
        await reports(store, 3)
        await until(lambda: room.worker.status().mailbox == 0)
    assert sorted(await reports(store, 3)) == [0, 1, 2]


async def test_a_run_after_one_that_failed_does_what_was_left(store: LocalStore):
    await add(store, *map(request, range(4)))
    room = Room(store)
    room.raises[0] = [GeneratorError("the engine broke")]
    with pytest.raises(BaseExceptionGroup) as failure:
        await asyncio.wait_for(room.run(), WAIT_S)
    assert failure.group_contains(GeneratorError)
    async with room.at_work():
        assert sorted(await reports(store, 4)) == [0, 1, 2, 3]
    assert await everything(store, topic_of(DeadLetter), DeadLetter) == []


async def test_what_the_journal_cannot_hold_is_a_dead_letter_at_once(store: LocalStore):
    await add(store, *map(request, range(3)))
    room = Room(store)
    wrong = msgspec.structs.replace(report(request(1)), task_id=1)
    room.says = lambda asked: (wrong if asked.version == 1 else report(asked),)
    async with room.at_work():
        assert sorted(await reports(store, 3)) == [0, 1, 2]
    (letter,) = await everything(store, topic_of(DeadLetter), DeadLetter)
    assert (letter.attempts, room.began.count(1)) == (1, 1)
    assert letter.unit == "score request: task_id task-1, version 1"


@pytest.mark.parametrize("writes_retried", [False, True])
async def test_a_retry_is_answered_and_its_outcome_written_if_it_is_wanted(
    store: LocalStore, writes_retried: bool
):
    [sequence] = await add(store, request(0))
    room = Room(store, writes_retried=writes_retried)
    async with room.at_work():
        await reports(store, 1)
    await add(store, LetterRetried(letter=7, consumer="scoring", sequence=sequence))
    room = Room(store, writes_retried=writes_retried)
    async with room.at_work(), asyncio.timeout(WAIT_S):
        await store.wait((topic_of(LetterAnswered),), 0, WAIT_S)
    (answer,) = await everything(store, topic_of(LetterAnswered), LetterAnswered)
    assert (answer.letter, answer.done, answer.outcome) == (7, True, "score_report")
    assert len(await reports(store, 1)) == 1 + writes_retried


async def test_an_outcome_after_a_death_is_written_before_the_next_such_item_begins(
    store: LocalStore,
):
    await add(store, *map(request, range(3)))
    killed = Room(store, concurrent=3, held=3)
    killed.may.clear()
    running = asyncio.create_task(killed.run())
    await until(lambda: len(killed.began) == 3)
    running.cancel()
    await asyncio.wait([running])
    room = Room(store, concurrent=3, held=3)
    written: list[int] = []

    def said(asked: ScoreRequest) -> Outcome:
        written.append(room.worker.status().done)
        return (report(asked),)

    room.says = said
    async with room.at_work():
        await reports(store, 3)
    assert written == [0, 1, 2]


async def test_an_urgent_outcome_waits_for_no_other(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
):
    pace = PACES["scoring"]
    slow = type(pace)(write_gather_s=10 * WAIT_S, urgent_gather_s=0.0)
    monkeypatch.setitem(PACES, "scoring", slow)
    await add(store, *map(request, range(3)))
    room = Room(store, concurrent=3, held=3, is_urgent=lambda message, others: not others)
    async with room.at_work():
        assert sorted(await reports(store, 3)) == [0, 1, 2]


async def test_the_status_says_how_much_is_in_work(store: LocalStore):
    room = Room(store, concurrent=1, held=1)
    room.may.clear()
    async with room.at_work():
        await until(lambda: room.worker.status().waits_for == "0 live")
        await add(store, request(0))
        await until(lambda: room.worker.status().waits_for == "1 live, full")
        assert room.worker.status(2).mailbox == 3
        room.may.set()
        await until(lambda: room.worker.status().waits_for == "0 live")

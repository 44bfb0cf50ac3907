import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from coevolve.journal.codec import decode_as, encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import Mailbox, hand_back
from protocols.control import RunFinished, Stalled
from protocols.errors import JournalError, JournalFullError, LeaseLostError, RefusedError
from protocols.interfaces import Store
from protocols.journal import Append, Complete, JournalStatistics, Receipt, StoredRecord, Take

LONG_S = 30.0


class SlowStore:
    """A store that counts writes and lets each pass only with a permission."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.writes: list[Append | Complete] = []
        self.permitted = asyncio.Semaphore(0)
        self.broken: Exception | None = None
        self.unanswered: Exception | None = None
        """Raised after a write was stored."""

    async def append(self, request: Append) -> tuple[int, ...]:
        await self._pass(request)
        return self._answered(await self.store.append(request))

    async def complete(self, request: Complete) -> tuple[int, ...]:
        await self._pass(request)
        return self._answered(await self.store.complete(request))

    def _answered(self, sequences: tuple[int, ...]) -> tuple[int, ...]:
        if self.unanswered is not None:
            raise self.unanswered
        return sequences

    async def _pass(self, request: Append | Complete) -> None:
        self.writes.append(request)
        await self.permitted.acquire()
        if self.broken is not None:
            raise self.broken

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        return await self.store.take(request)

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        return await self.store.wait(topics, after, wait_s)

    async def checkpoint(self, path: Path) -> None:
        await self.store.checkpoint(path)

    async def statistics(self) -> JournalStatistics:
        return await self.store.statistics()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    yield LocalStore(journal)
    journal.close()


def mailbox(
    store: Store, member: str = "m", lease_s: float = 10.0, gather_s: float = 0.0
) -> Mailbox:
    return Mailbox(
        store,
        consumer="c",
        topics=("run_finished",),
        member=member,
        lease_s=lease_s,
        gather_s=gather_s,
    )


def finished(*steps: int) -> list[RunFinished]:
    return [RunFinished(steps=n) for n in steps]


def stalled(quiet_s: float) -> Stalled:
    return Stalled(quiet_s=quiet_s, waiting=())


async def test_messages_go_in_and_come_out(store: LocalStore) -> None:
    box = mailbox(store)
    assert await box.append(finished(1, 2, 3)) == (1, 2, 3)
    got = await box.take(2, LONG_S)
    assert [(each.sequence, each.message) for each in got] == list(
        enumerate(finished(1, 2), start=1)
    )
    assert box.held == {1, 2}
    assert await box.complete([1], [stalled(1.0)]) == (4,)
    assert box.held == {2}
    assert [each.sequence for each in await box.take(5, LONG_S)] == [3]


async def test_requests_during_a_write_form_the_next_write(store: LocalStore) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    await store.append(append_of(20))
    await box.take(20, LONG_S)
    tasks = [
        asyncio.create_task(box.complete([n], [stalled(n + 0.1 * k) for k in range(n % 3)]))
        for n in range(1, 21)
    ]
    await asyncio.sleep(0)
    slow.permitted.release()
    slow.permitted.release()
    answers = await asyncio.gather(*tasks)
    assert len(slow.writes) <= 2
    assert [len(answer) for answer in answers] == [n % 3 for n in range(1, 21)]
    for n, answer in enumerate(answers, start=1):
        for k, stored in enumerate(await store.read(answer)):
            assert stored.topic == "stalled"
            assert decode_quiet(stored) == pytest.approx(n + 0.1 * k)
    assert box.held == frozenset()


async def test_a_write_that_may_not_wait_takes_along_those_that_may(store: LocalStore) -> None:
    slow = SlowStore(store)
    slow.permitted.release()
    box = mailbox(slow, gather_s=LONG_S)
    await store.append(append_of(2))
    await box.take(2, LONG_S)
    patient = asyncio.create_task(box.complete([1], [stalled(1.0)]))
    await asyncio.sleep(0.05)
    assert not slow.writes
    async with asyncio.timeout(LONG_S / 2):
        hasty = await box.complete([2], [stalled(2.0)], gather_s=0.0)
        assert (await patient, hasty) == ((3,), (4,))
    assert len(slow.writes) == 1


async def test_one_lost_lease_costs_only_its_own_caller(store: LocalStore) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    await store.append(append_of(4))
    await box.take(4, LONG_S)
    for _ in range(9):
        slow.permitted.release()
    await box.complete([1])
    tasks = [asyncio.create_task(box.complete([n], [stalled(n)])) for n in (1, 2, 3)]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[0], LeaseLostError)
    assert [len(await store.read(answer)) for answer in answers[1:] if isinstance(answer, tuple)]
    assert [stored.sequence for stored in await store.scan("stalled")] == [5, 6]
    assert box.held == {4}


async def test_a_full_disk_leaves_the_work_in_hand(store: LocalStore) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    await store.append(append_of(1))
    await box.take(1, LONG_S)
    slow.broken = JournalFullError("no room")
    slow.permitted.release()
    with pytest.raises(JournalFullError):
        await box.complete([1])
    assert box.held == {1}
    slow.broken = None
    slow.permitted.release()
    assert await box.complete([1]) == ()


async def test_a_merged_write_that_may_be_stored_is_not_repeated(store: LocalStore) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    slow.unanswered = JournalError("the store's socket cannot be reached")
    for _ in range(9):
        slow.permitted.release()
    tasks = [asyncio.create_task(box.append(finished(n))) for n in range(5)]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["the store's socket cannot be reached"] * 5
    assert len(slow.writes) == 1
    assert [decode_as(each, RunFinished).steps for each in await store.scan("run_finished")] == [
        *range(5)
    ]


async def test_a_refused_write_costs_only_its_own_caller(store: LocalStore) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    await store.append(append_of(2))
    await box.take(2, LONG_S)
    for _ in range(9):
        slow.permitted.release()
    tasks = [asyncio.create_task(box.complete([n], [stalled(n)])) for n in (1, 9, 2)]
    first, mistaken, last = await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, last) == ((3,), (4,))
    assert isinstance(mistaken, RefusedError)


async def test_a_store_failure_reaches_every_caller(store: LocalStore) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    slow.broken = ConnectionError("the store is gone")
    for _ in range(9):
        slow.permitted.release()
    tasks = [asyncio.create_task(box.append(finished(n))) for n in range(5)]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["the store is gone"] * 5


async def test_a_caller_that_gives_up_does_not_stop_the_write(store: LocalStore) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    task = asyncio.create_task(box.append(finished(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    slow.permitted.release()
    slow.permitted.release()
    assert await box.append(finished(2)) == (2,)
    assert len(await store.scan("run_finished")) == 2


async def test_a_restarted_member_gets_its_work_again(store: LocalStore) -> None:
    before, after = mailbox(store), mailbox(store)
    await before.append(finished(1))
    await before.take(1, LONG_S)
    assert [each.sequence for each in await after.take(1, LONG_S)] == [1]
    with pytest.raises(LeaseLostError):
        await before.complete([1], [stalled(1.0)])
    assert before.held == frozenset()
    with pytest.raises(LeaseLostError):
        await before.take(1, 0.0)


async def test_renewing_keeps_the_work_and_takes_none(store: LocalStore) -> None:
    box, other = mailbox(store, lease_s=0.3), mailbox(store, member="n")
    await box.append(finished(1, 2))
    await box.take(1, LONG_S)
    for _ in range(4):
        await asyncio.sleep(0.1)
        await box.renew()
    assert box.held == {1}
    assert [each.sequence for each in await other.take(5, 0.0)] == [2]


async def test_a_waiting_take_comes_back_in_time_to_renew(store: LocalStore) -> None:
    box, other = mailbox(store, lease_s=0.3), mailbox(store, member="n")
    await box.append(finished(1))
    await box.take(1, LONG_S)
    for _ in range(4):
        assert await box.take(1, LONG_S) == []
    assert await other.take(5, 0.0) == []


async def test_a_mistaken_completion_is_refused_and_the_work_stays(store: LocalStore) -> None:
    box = mailbox(store)
    await box.append(finished(1))
    await box.take(1, LONG_S)
    with pytest.raises(JournalError, match="cannot finish record 9"):
        await box.complete([1, 9])
    assert await box.complete([1]) == ()


async def test_a_flush_waits_for_writes_whose_callers_gave_up(store: LocalStore) -> None:
    box = mailbox(store, gather_s=0.1)
    await box.flush()
    await box.append(finished(1))
    await box.take(1, LONG_S)
    task = asyncio.create_task(box.complete([1], [stalled(1.0)]))
    await asyncio.sleep(0)
    task.cancel()
    await box.flush()
    assert box.held == frozenset()
    assert len(await store.scan("stalled")) == 1


async def test_work_that_is_handed_back_goes_to_another_member_at_once(store: LocalStore) -> None:
    gone, other = mailbox(store, lease_s=LONG_S), mailbox(store, member="n")
    await gone.append(finished(1))
    await gone.take(1, LONG_S)
    waiting = asyncio.create_task(gone.take(1, LONG_S))
    taking = asyncio.create_task(other.take(1, LONG_S))
    async with asyncio.timeout(LONG_S / 3):
        await hand_back(store, consumer="c", member="m")
        assert [each.sequence for each in await taking] == [1]
        with contextlib.suppress(LeaseLostError):
            assert await waiting == []
    with pytest.raises(LeaseLostError):
        await gone.complete([1], [stalled(1.0)])
    await other.complete([1], [stalled(2.0)])


def append_of(count: int) -> Append:
    return Append(
        records=tuple(map(encode, finished(*range(count)))),
        receipt=Receipt(producer="setup", counter=1),
    )


def decode_quiet(stored: StoredRecord) -> float:
    return decode_as(stored, Stalled).quiet_s

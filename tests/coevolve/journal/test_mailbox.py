import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from threading import Thread

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


class CountingStore(SlowStore):
    """A store that counts takes, and answers none while it is broken."""

    takes = 0

    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        self.permitted.release()
        self.permitted.release()

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        self.takes += 1
        if self.broken is not None:
            raise self.broken
        return await super().take(request)


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


async def test_of_two_merged_writes_the_one_whose_lease_is_kept_is_stored(
    store: LocalStore,
) -> None:
    slow = SlowStore(store)
    box = mailbox(slow)
    await store.append(append_of(2))
    await box.take(2, LONG_S)
    for _ in range(9):
        slow.permitted.release()
    await box.complete([1])
    tasks = [asyncio.create_task(box.complete([n], [stalled(n)])) for n in (1, 2)]
    lost, kept = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(lost, LeaseLostError)
    assert kept == (3,)
    assert [len(write.outputs) for write in slow.writes if isinstance(write, Complete)][1:] == [
        *(2, 1, 1)  # both together, then one by one
    ]


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


async def test_taking_the_seat_again_keeps_the_work_and_takes_none(store: LocalStore) -> None:
    box, other = mailbox(store, lease_s=0.3), mailbox(store, member="n")
    await box.append(finished(1, 2))
    await box.take(1, LONG_S)
    for _ in range(4):
        await asyncio.sleep(0.1)
        await box.take_seat()
    assert box.held == {1}
    assert [each.sequence for each in await other.take(5, 0.0)] == [2]


async def test_a_waiting_take_comes_back_in_time_to_renew(store: LocalStore) -> None:
    box, other = mailbox(store, lease_s=0.3), mailbox(store, member="n")
    await box.append(finished(1))
    await box.take(1, LONG_S)
    for _ in range(4):
        assert await box.take(1, LONG_S) == []
    assert await other.take(5, 0.0) == []


LEASE_S = 1.0


def in_thread(journal: Journal, name: str, work: Callable[[Mailbox], Awaitable[None]]) -> Thread:
    """Return a started thread with an event loop of its own, as another process has one."""

    async def live() -> None:
        await work(mailbox(LocalStore(journal), member=name, lease_s=LEASE_S))

    thread = Thread(target=lambda: asyncio.run(live()))
    thread.start()
    return thread


async def test_a_member_keeps_its_work_for_three_leases_and_a_stuck_one_loses_it_after_one(
    tmp_path: Path,
) -> None:
    journal = Journal.open(tmp_path / "store")
    store = LocalStore(journal)
    await store.append(append_of(5))

    async def taken(member: str, wait_s: float = 0.0) -> tuple[Mailbox, list[int]]:
        box = mailbox(store, member=member, lease_s=LEASE_S)
        return box, [each.sequence for each in await box.take(1, wait_s)]

    async def working() -> None:
        box, sequences = await taken("working")
        await asyncio.sleep(3 * LEASE_S)
        await box.complete(sequences)

    async def failing() -> None:
        await taken("failing")
        raise ValueError("the part ends")

    async def waiting() -> None:
        await taken("cancelled")
        await asyncio.Event().wait()

    async def block(box: Mailbox) -> None:
        await box.take(1, 0.0)
        time.sleep(2.5 * LEASE_S)  # noqa: ASYNC251 - the loop stands still, as in a stuck process

    async def sleep(box: Mailbox) -> None:
        await box.take(1, 0.0)
        await asyncio.sleep(2.5 * LEASE_S)

    async with asyncio.timeout(LONG_S):
        alive, failed, cancelled = (
            asyncio.create_task(work()) for work in (working, failing, waiting)
        )
        await asyncio.sleep(0.1 * LEASE_S)
        cancelled.cancel()
        threads = [in_thread(journal, "blocked", block)]
        await asyncio.sleep(0.1 * LEASE_S)
        threads.append(in_thread(journal, "asleep", sleep))
        await asyncio.sleep(2 * LEASE_S)
        other = mailbox(store, member="other", lease_s=LONG_S)
        assert [each.sequence for each in await other.take(5, 0.0)] == [2, 3, 4]
        await alive
        assert isinstance(failed.exception(), ValueError)
        await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    journal.close()


async def test_renewals_add_no_call_while_takes_wait(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "store")
    store = CountingStore(LocalStore(journal))
    box = mailbox(store, lease_s=LEASE_S)
    await box.append(finished(1))
    await box.take(1, LONG_S)
    for _ in range(4):
        await box.take(1, LONG_S)
    assert store.takes == 5
    await asyncio.sleep(0.75 * LEASE_S)
    assert store.takes > 5
    await box.complete([1])
    renewed = store.takes
    await asyncio.sleep(0.75 * LEASE_S)
    assert store.takes == renewed  # nothing is held
    journal.close()


async def test_a_member_whose_seat_is_lost_renews_nothing_more(store: LocalStore) -> None:
    box = mailbox(store, lease_s=0.3)
    await box.append(finished(1))
    await box.take(1, LONG_S)
    successor = mailbox(store, lease_s=0.3)
    assert [each.sequence for each in await successor.take(1, LONG_S)] == [1]
    await asyncio.sleep(0.6)
    assert [each.sequence for each in await mailbox(store, member="n").take(1, 0.0)] == []
    with pytest.raises(LeaseLostError):
        await box.take(1, 0.0)


async def test_a_store_that_fails_for_a_while_ends_no_renewal(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "store")
    store = CountingStore(LocalStore(journal))
    box = mailbox(store, lease_s=LEASE_S)
    await box.append(finished(1))
    await box.take(1, LONG_S)
    store.broken = JournalError("the store's process restarts")
    await asyncio.sleep(0.5 * LEASE_S)
    store.broken = None
    await asyncio.sleep(1.5 * LEASE_S)
    other = mailbox(store, member="n")
    assert await other.take(1, 0.0) == []
    journal.close()


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

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.errors import LeaseLostError
from protocols.interfaces import Reader, Store
from tests.journals import append, bodies, complete, record, take

LONG_S = 30.0
"""Longer than any test may take; a call that waits this long was not woken."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    yield LocalStore(journal)
    journal.close()


def test_it_offers_what_the_interfaces_ask(store: LocalStore) -> None:
    _writes: Store = store
    _reads: Reader = store


async def test_a_take_waits_for_a_record_of_its_topics(store: LocalStore) -> None:
    waiting = asyncio.create_task(store.take(take("a", wait_s=LONG_S)))
    await asyncio.sleep(0)
    await store.append(append(record("other", "b"), counter=1))
    await store.append(append(record("mine", "a"), counter=2))
    assert bodies(await waiting) == ["mine"]


async def test_a_take_returns_nothing_when_its_time_is_over(store: LocalStore) -> None:
    assert await store.take(take("a", wait_s=0.01)) == []
    assert await store.take(take("a", wait_s=0.0)) == []


async def test_a_take_waits_for_a_lease_to_run_out(store: LocalStore) -> None:
    await store.append(append(record("a")))
    assert len(await store.take(take("note", lease_s=0.05))) == 1
    other = await store.take(take("note", member="n", incarnation="n1", wait_s=LONG_S))
    assert bodies(other) == ["a"]


async def test_a_take_wakes_when_another_member_releases_records(store: LocalStore) -> None:
    await store.append(append(record("a")))
    await store.take(take("note"))
    waiting = asyncio.create_task(
        store.take(take("note", member="n", incarnation="n1", wait_s=LONG_S))
    )
    await asyncio.sleep(0.05)
    await store.take(take(held=()))
    assert bodies(await waiting) == ["a"]


async def test_a_take_wakes_when_a_seat_gets_a_new_incarnation(store: LocalStore) -> None:
    await store.append(append(record("a")))
    await store.take(take("note"))
    waiting = asyncio.create_task(
        store.take(take("note", member="n", incarnation="n1", wait_s=LONG_S))
    )
    await asyncio.sleep(0.05)
    await store.take(take("other", incarnation="m2"))
    assert bodies(await waiting) == ["a"]


async def test_a_newer_take_of_a_seat_ends_the_older_one(store: LocalStore) -> None:
    older = asyncio.create_task(store.take(take("note", wait_s=LONG_S)))
    await asyncio.sleep(0.05)
    newer = asyncio.create_task(store.take(take("note", wait_s=LONG_S)))
    assert await older == []
    await store.append(append(record("a")))
    assert bodies(await newer) == ["a"]


async def test_a_take_may_ask_for_a_minimum(store: LocalStore) -> None:
    waiting = asyncio.create_task(store.take(take("note", wait_s=LONG_S, at_least=3, limit=4)))
    for counter in range(1, 4):
        await asyncio.sleep(0.02)
        assert not waiting.done()
        await store.append(append(record(str(counter)), counter=counter))
    assert bodies(await waiting) == ["1", "2", "3"]
    await store.append(append(record("4"), counter=4))
    late = await store.take(take("note", held=[1, 2, 3], wait_s=0.05, at_least=3))
    assert bodies(late) == ["4"]


async def test_a_replaced_member_gets_an_error_while_it_waits(store: LocalStore) -> None:
    older = asyncio.create_task(store.take(take("note", incarnation="m1", wait_s=LONG_S)))
    await asyncio.sleep(0.05)
    newer = asyncio.create_task(store.take(take("note", incarnation="m2", wait_s=0.2)))
    assert await older == []
    assert await newer == []
    with pytest.raises(LeaseLostError):
        await store.take(take("note", incarnation="m1"))


async def test_many_members_wait_and_each_record_goes_to_one(store: LocalStore) -> None:
    waiting = [
        asyncio.create_task(
            store.take(take("note", member=f"m{n}", incarnation=f"i{n}", limit=1, wait_s=LONG_S))
        )
        for n in range(50)
    ]
    await asyncio.sleep(0.05)
    for counter in range(1, 51):
        await store.append(append(record(str(counter)), counter=counter))
    got = [bodies(await each) for each in waiting]
    assert sorted(int(body) for (body,) in got) == list(range(1, 51))


async def test_waiting_is_for_the_named_topics_or_for_any(store: LocalStore) -> None:
    any_topic = asyncio.create_task(store.wait((), 0, LONG_S))
    named = asyncio.create_task(store.wait(("b", "c"), 1, LONG_S))
    await asyncio.sleep(0.05)
    await store.append(append(record("1", "a"), counter=1))
    assert await any_topic == 1
    assert not named.done()
    await store.append(append(record("2", "b"), counter=2))
    assert await named == 2
    assert await store.wait(("a",), 0, LONG_S) == 1
    assert await store.wait(("absent",), 0, 0.01) == 0


async def test_it_reads_what_it_wrote(store: LocalStore, tmp_path: Path) -> None:
    await store.append(append(record("a", n="1"), record("b", n="1")))
    assert bodies(await store.scan("note", 1)) == ["b"]
    assert bodies(await store.find("n", "1")) == ["a", "b"]
    assert bodies(await store.read([2])) == ["b"]
    last = await store.last("note")
    assert last is not None
    assert last.sequence == 2
    await store.checkpoint(tmp_path / "copy")
    copy = Journal.open(tmp_path / "copy")
    assert copy.newest(()) == 2
    copy.close()


async def test_a_cancelled_caller_does_not_disturb_the_others(store: LocalStore) -> None:
    tasks = [
        asyncio.create_task(store.append(append(record(str(n)), producer=str(n))))
        for n in range(99)
    ]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    kept = [result for result in results if isinstance(result, tuple)]
    assert len(kept) >= 49
    assert len(set(kept)) == len(kept)
    await store.append(append(record("after")))


async def test_completing_and_taking_meet_in_one_store(store: LocalStore) -> None:
    await store.append(append(record("in", "a")))
    following = asyncio.create_task(store.take(take("b", consumer="next", wait_s=LONG_S)))
    (got,) = await store.take(take("a", wait_s=LONG_S))
    await store.complete(complete(got.sequence, outputs=[record("out", "b")]))
    assert bodies(await following) == ["out"]

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import ray

from actors.node import node_id
from actors.remote_store import Connect, RayLine, RemoteStore, fastest_line, ray_line
from actors.store import StoreActor, StoreShell
from coevolve.journal.called_store import PAGE_BYTES
from coevolve.journal.codec import decode_as, encode
from coevolve.journal.journal import Journal
from coevolve.journal.lane import Lane
from coevolve.journal.mailbox import Mailbox
from coevolve.journal.restarts import WITHIN_S
from protocols.config import StoreConfig
from protocols.control import RunFinished, Stalled
from protocols.errors import JournalError, LeaseLostError
from protocols.interfaces import Reader, Store
from tests.journals import append, bodies, complete, record, take

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]

LONG_S = 60.0
KILLS = 4


@pytest.fixture
def actor(tmp_path: Path) -> Iterator[Any]:
    actor: Any = StoreActor.remote(tmp_path / "store", StoreConfig(lease_s=LONG_S))
    yield actor
    ray.kill(actor)


LINES = (fastest_line, ray_line)


@pytest.fixture(params=LINES)
def store(request: pytest.FixtureRequest, actor: Any) -> RemoteStore:
    """A store as processes see it on its node, and on others."""
    return RemoteStore(actor, request.param)


@pytest.fixture
def reader(store: RemoteStore) -> Reader:
    return store.reader()


def mailbox(store: Store, member: str, *topics: str) -> Mailbox:
    return Mailbox(store, consumer="c", topics=topics, member=member, lease_s=LONG_S)


async def test_the_remote_store_behaves_like_the_local_one(
    store: Store, reader: Reader, tmp_path: Path
) -> None:
    waiting = asyncio.create_task(store.take(take("note", wait_s=LONG_S)))
    assert await store.append(append(record("a", n="1"), record("b"))) == (1, 2)
    assert bodies(await waiting) == ["a", "b"]
    assert await store.complete(complete(1, outputs=[record("c", "result")])) == (3,)
    assert await store.wait(("result",), 0, LONG_S) == 3
    assert bodies(await reader.scan("note")) == ["a", "b"]
    assert bodies(await reader.find("n", "1")) == ["a"]
    assert bodies(await reader.read([3, 1])) == ["c", "a"]
    last = await reader.last("note")
    assert last is not None
    assert last.sequence == 2
    assert (await store.statistics()).leased == {"c": 1}
    await store.checkpoint(tmp_path / "copy")
    assert (tmp_path / "copy" / "data.mdb").exists()


async def test_the_store_is_called_by_its_socket_if_user_and_node_are_its_own(actor: Any) -> None:
    assert isinstance(await fastest_line(actor), Lane)
    address = await RayLine(actor).socket()
    assert (address.user, address.node) == (os.getuid(), node_id())


async def test_errors_keep_their_type_across_processes(store: Store, reader: Reader) -> None:
    await store.append(append(record("a")))
    await store.take(take("note"))
    await store.complete(complete(1))
    with pytest.raises(LeaseLostError, match="already finished") as refused:
        await store.complete(complete(1, counter=2))
    assert type(refused.value) is LeaseLostError
    with pytest.raises(JournalError, match="has no record 7"):
        await reader.read([7])


@pytest.mark.parametrize("connect", LINES)
async def test_a_store_that_cannot_open_its_journal_says_why(
    connect: Connect, tmp_path: Path
) -> None:
    journal = Journal.open(tmp_path)
    actor: Any = StoreActor.remote(tmp_path, StoreConfig())
    with pytest.raises(JournalError, match=r"does not start: .*can have one writer.*stop that run"):
        await RemoteStore(actor, connect).statistics()
    journal.close()


async def test_a_store_that_ends_for_good_ends_the_calls_in_flight(
    actor: Any, store: Store
) -> None:
    waiting = asyncio.create_task(store.wait(("note",), 0, LONG_S))
    await store.statistics()
    ray.kill(actor)
    async with asyncio.timeout(LONG_S):
        with pytest.raises(JournalError, match="does not start"):
            await waiting


async def test_thousands_of_waiting_takes_do_not_hold_up_a_write(store: Store) -> None:
    waiting = [
        asyncio.create_task(
            store.take(take("note", member=f"m{n}", incarnation=f"i{n}", limit=1, wait_s=LONG_S))
        )
        for n in range(1500)
    ]
    await asyncio.sleep(0.1)
    await store.append(append(*(record(str(n)) for n in range(1500))))
    got = [bodies(records) for records in await asyncio.gather(*waiting)]
    assert sorted(int(body) for (body,) in got) == list(range(1500))


class BreakableShell(StoreShell):
    """A store whose journal breaks at the next look at its size."""

    @ray.method
    async def hide(self) -> int:
        """Return the process."""
        self._store._journal._committer._file = Path("/nowhere")
        return os.getpid()


@pytest.mark.parametrize("connect", LINES)
async def test_a_store_whose_journal_breaks_starts_again(connect: Connect, tmp_path: Path) -> None:
    remote: Any = ray.remote
    start = remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=100)
    actor = start(BreakableShell).remote(tmp_path / "store", StoreConfig())
    store = RemoteStore(actor, connect)
    assert await store.append(append(record("a"))) == (1,)
    process = await actor.hide.remote()
    async with asyncio.timeout(LONG_S):
        assert (await store.statistics()).last_sequence == 1
        assert await store.append(append(record("b"), counter=2)) == (2,)
    assert (await actor.status.remote()).pid != process
    ray.kill(actor)


async def test_a_call_that_breaks_every_process_ends_all_calls_with_the_cause(actor: Any) -> None:
    store, other = RemoteStore(actor), RemoteStore(actor, ray_line)
    await store.append(append(record("a")))
    waiting = asyncio.create_task(other.wait(("other",), 1, 600.0))
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(JournalError, match=r"broke 8 times.*OverflowError"):
            await store.complete(complete(-1))
        with pytest.raises(JournalError, match="broke 8 times"):
            await waiting


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(LINES, id="both"),
        pytest.param((fastest_line,), id="socket", marks=pytest.mark.exhaustive),
    ],
)
async def test_a_killed_store_loses_nothing_and_doubles_nothing(
    actor: Any, lines: Sequence[Connect]
) -> None:
    """Writes, takes and completions continue while the store's process is killed repeatedly."""
    chance = random.Random(5)
    store = RemoteStore(actor)
    connects = cycle(lines)
    stores = [RemoteStore(actor, next(connects)) for _ in range(5)]
    appenders = [mailbox(each, f"appender-{n}") for n, each in enumerate(stores[:3])]
    workers = [mailbox(each, f"worker-{n}", "run_finished") for n, each in enumerate(stores[3:])]
    over = asyncio.Event()
    written: list[int] = []
    worked: list[int] = []

    async def append_on(box: Mailbox, number: int) -> None:
        step = number
        while not over.is_set():
            step += 3
            await box.append([RunFinished(steps=step)])
            written.append(step)

    async def work_on(box: Mailbox) -> None:
        while not over.is_set() or len(worked) < len(written):
            for sequence, message in await box.take(4, 0.5):
                assert isinstance(message, RunFinished)
                with suppress(LeaseLostError):  # another member took it from the restarted store
                    await box.complete([sequence], [Stalled(quiet_s=message.steps, waiting=())])
                    worked.append(message.steps)

    async def kill_on() -> None:
        for _ in range(KILLS):
            last = (await store.statistics()).last_sequence
            await store.wait((), last + 40, LONG_S)
            await asyncio.sleep(chance.uniform(0.0, 0.05))
            os.kill((await actor.status.remote()).pid, signal.SIGKILL)
        over.set()

    async with asyncio.timeout(90):
        await asyncio.gather(
            kill_on(),
            *(append_on(box, number) for number, box in enumerate(appenders)),
            *(work_on(box) for box in workers),
        )
    reader = store.reader()
    finished = await reader.scan("run_finished", limit=100_000)
    effects = await reader.scan("stalled", limit=100_000)
    kept = Counter(decode_as(stored, RunFinished).steps for stored in finished)
    done = Counter(decode_as(stored, Stalled).quiet_s for stored in effects)
    assert kept == Counter(written)
    assert done == Counter(worked) == kept
    assert set(kept.values()) == {1}
    sequences = sorted(stored.sequence for stored in [*finished, *effects])
    assert sequences == list(range(1, len(sequences) + 1))


async def test_records_of_messages_survive_the_way_to_the_actor(
    store: Store, reader: Reader
) -> None:
    message = RunFinished(steps=3)
    assert await store.append(append(encode(message))) == (1,)
    (stored,) = await reader.scan("run_finished")
    assert decode_as(stored, RunFinished) == message


async def test_long_answers_come_in_pages(store: Store, reader: Reader) -> None:
    large = "x" * (PAGE_BYTES // 3)
    records = [record(f"{n}{large}", "note", n="1") for n in range(9)]
    await store.append(append(*records, record("small", "other")))
    everything = [f"{n}{large}" for n in range(9)]
    assert bodies(await reader.scan("note")) == everything
    assert bodies(await reader.scan("note", after=2, limit=5)) == everything[2:7]
    assert bodies(await reader.find("n", "1", limit=8)) == everything[:8]
    assert bodies(await reader.read(range(9, 0, -1))) == everything[::-1]
    assert bodies(await reader.scan("nothing")) == []

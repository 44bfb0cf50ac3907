import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coevolve.history.weight_sync import scale_sentence
from coevolve.journal.codec import decode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import Mailbox
from coevolve.runs import starting
from coevolve.runs.scaling import EnginePool, Scaling, change, recorded_scale
from coevolve.runs.supervisor import Supervisor
from protocols.config import RunConfig
from protocols.control import NodesTooSmall, PartFailed, RolloutScaled, ScaleRefused, ScaleRequested
from protocols.errors import DependencyError
from protocols.journal import Message
from protocols.rollouts import RolloutRequest
from tests.driving import Host
from tests.evolving import write
from tests.fakes import SteadyPart, all_work

CHANGES = ("rollout_scaled", "scale_refused")
WAIT_S = 20.0
LEASE_S = 60.0


class Stage:
    """A supervised pool of engines, and what the journal says about it."""

    def __init__(self, store: LocalStore, host: Host, actors: int) -> None:
        self.store = store
        self.host = host
        self.pool = EnginePool(host, actors)
        self.learner = SteadyPart("learner")
        self.failures: list[PartFailed] = []
        self.said: list[str] = []
        self.member = self.mailbox("attach", ())

    async def __aenter__(self) -> "Stage":
        await self.pool.open()
        engines = self.pool.parts
        parts = [*engines, self.learner]
        self.supervisor = Supervisor(
            parts, self._note, restart_s=WAIT_S, note_resting=all_work, spare=engines
        )
        scaling = Scaling(self.pool, self.supervisor, self.store, LEASE_S, self.said.append)
        self.tasks = (
            asyncio.create_task(self.supervisor.run()),
            asyncio.create_task(scaling.run(opened=await self.store.wait((), 0, 0.0))),
        )
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        supervising, scaling = self.tasks
        scaling.cancel()
        await self.supervisor.stop()
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(supervising, scaling, return_exceptions=True)

    async def _note(self, failure: PartFailed) -> None:
        self.failures.append(failure)

    def mailbox(self, member: str, topics: tuple[str, ...]) -> Mailbox:
        return Mailbox(
            self.store, consumer="rollout", topics=topics, member=member, lease_s=LEASE_S
        )

    async def ask(self, actors: int) -> Message:
        """Ask for this number of engines and return the answer."""
        count = len(await self.changes())
        await self.member.append([ScaleRequested(request_id="r", actors=actors)])
        return await self.change(count)

    async def changes(self) -> list[Message]:
        """Return every answer and change so far, oldest first."""
        found = [record for topic in CHANGES for record in await self.store.scan(topic)]
        return [decode(record) for record in sorted(found, key=lambda each: each.sequence)]

    async def change(self, number: int) -> Message:
        """Return the change with this number, counted from 0, once it is there."""
        async with asyncio.timeout(WAIT_S):
            seen = 0
            while len(found := await self.changes()) <= number:
                seen = await self.store.wait(CHANGES, seen, WAIT_S)
            return found[number]

    async def until_recorded(self, *expected: NodesTooSmall) -> None:
        """Wait until the journal has exactly these records about nodes that are too small."""
        async with asyncio.timeout(WAIT_S):
            seen = 0
            while len(found := await self.store.scan("nodes_too_small")) < len(expected):
                seen = await self.store.wait(("nodes_too_small",), seen, WAIT_S)
        assert tuple(decode(record) for record in found) == expected

    async def until(self, *engines: str) -> None:
        """Wait until exactly these engines, and the learner, are supervised."""
        deadline = time.monotonic() + WAIT_S
        while {each.name for each in self.supervisor.parts} != {"learner", *engines}:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    yield LocalStore(journal)
    journal.close()


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.runs.scaling.LOOK_S", 0.02)
    monkeypatch.setattr("coevolve.runs.supervisor.PAUSE_S", 0.01)


def test_engines_join_where_the_fewest_are_and_the_newest_leave():
    rooms = {"a": 2, "b": 2}
    first = change({}, 3, rooms)
    assert first.joining == {"rollout-0": "a", "rollout-1": "b", "rollout-2": "a"}
    assert not first.leaving
    assert not change(first.joining, 3, rooms)
    assert change(first.joining, 9, rooms).joining == {"rollout-3": "b"}
    assert change(first.joining, 1, rooms).leaving == ["rollout-1", "rollout-2"]


def test_engines_of_a_lost_place_leave_and_free_names_are_used_again():
    present = {"rollout-0": "a", "rollout-1": "b", "rollout-10": "b", "rollout-2": "c"}
    lost = change(present, 4, {"b": 2, "c": 2})
    assert lost.lost == lost.leaving == ["rollout-0"]
    assert lost.joining == {"rollout-3": "c"}
    assert change(present, 4, {"b": 2}).lost == ["rollout-0", "rollout-2"]
    assert change(present, 3, {"": 9}).joining == {f"rollout-{n}": "" for n in (3, 4, 5)}
    fewer = change(dict.fromkeys(present, "a"), 2, {"a": 9})
    assert fewer.leaving == ["rollout-2", "rollout-10"]


async def test_engines_are_added_and_let_go_on_request(store: LocalStore):
    async with Stage(store, Host({"": 9}), 1) as stage:
        assert await stage.ask(3) == RolloutScaled(
            cause="request",
            actors=3,
            engines=("rollout-0", "rollout-1", "rollout-2"),
            request_id="r",
        )
        await stage.until("rollout-0", "rollout-1", "rollout-2")
        answer = await stage.ask(1)
        assert isinstance(answer, RolloutScaled)
        assert answer.engines == ("rollout-0",)
        await stage.until("rollout-0")
        for name in ("rollout-1", "rollout-2"):
            (part,) = stage.host.started[name]
            assert part.stopped
            assert not part.alive
        await stage.ask(2)
        await stage.until("rollout-0", "rollout-1")
        assert len(stage.host.started["rollout-1"]) == 2
        assert not stage.failures


async def test_a_request_that_the_run_cannot_carry_out_is_refused(store: LocalStore):
    async with Stage(store, Host({"": 9}), 1) as stage:
        stage.host.refuses = "the cluster has 1 GPU"
        assert await stage.ask(7) == ScaleRefused(request_id="r", reason="7: the cluster has 1 GPU")
        assert set(stage.host.started) == {"rollout-0"}


async def test_a_request_from_before_a_resumption_is_refused(store: LocalStore):
    box = Mailbox(store, consumer="attach", topics=(), member="attach", lease_s=LEASE_S)
    await box.append([ScaleRequested(request_id="old", actors=3)])
    async with Stage(store, Host({"": 9}), 1) as stage:
        answer = await stage.change(0)
        assert isinstance(answer, ScaleRefused)
        assert (answer.request_id, "started again" in answer.reason) == ("old", True)
        assert set(stage.host.started) == {"rollout-0"}


async def test_what_an_engine_holds_is_free_as_soon_as_it_is_gone(store: LocalStore):
    async with Stage(store, Host({"": 9}), 2) as stage:
        leaving, staying = (
            stage.mailbox(name, ("rollout_request",)) for name in ("rollout-1", "rollout-0")
        )
        await stage.member.append([REQUEST])
        assert len(await leaving.take(1, WAIT_S)) == 1
        taking = asyncio.create_task(staying.take(1, WAIT_S))
        await stage.ask(1)
        assert [each.message for each in await taking] == [REQUEST]


async def test_engines_follow_nodes_that_join_and_leave(store: LocalStore):
    async with Stage(store, Host({"a": 2}), 5) as stage:
        assert stage.host.places == {"rollout-0": "a", "rollout-1": "a"}
        stage.host.free = {"a": 2, "b": 2}
        joined = await stage.change(0)
        engines = ("rollout-0", "rollout-1", "rollout-2", "rollout-3")
        assert joined == RolloutScaled(cause="nodes", actors=5, engines=engines)
        await stage.until(*engines)
        stage.host.free = {"b": 2}
        for name in ("rollout-0", "rollout-1"):
            await stage.host.started[name][0].end()
        left = await stage.change(1)
        assert isinstance(left, RolloutScaled)
        assert left.engines == ("rollout-2", "rollout-3")
        await stage.until("rollout-2", "rollout-3")
        assert not stage.host.started["rollout-0"][0].stopped
        stage.host.free = {}
        await stage.until()
        stage.host.free = {"a": 1}
        await stage.until("rollout-0")


async def test_a_node_that_is_too_small_is_recorded_once_and_again_when_it_is_gone(
    store: LocalStore,
):
    async with Stage(store, Host({"": 9}), 1) as stage:
        stage.host.small = ("the node b is too small",)
        await stage.until_recorded(NodesTooSmall(reasons=("the node b is too small",)))
        await asyncio.sleep(0.1)
        stage.host.small = ()
        await stage.until_recorded(
            NodesTooSmall(reasons=("the node b is too small",)), NodesTooSmall(reasons=())
        )


async def test_an_added_engine_that_cannot_work_is_let_go_and_the_run_continues(
    store: LocalStore,
):
    async with Stage(store, Host({"": 9}), 1) as stage:
        stage.host.failure = DependencyError("the node lacks vllm")
        asked = await stage.ask(2)
        assert isinstance(asked, RolloutScaled)
        assert asked.engines == ("rollout-0", "rollout-1")
        alone = RolloutScaled(cause="failure", actors=2, engines=("rollout-0",))
        assert await stage.change(1) == alone
        await stage.until("rollout-0")
        assert "rollout-1: the node lacks vllm" in stage.said[0]
        await asyncio.sleep(0.1)
        assert len(await stage.changes()) == 2
        assert len(stage.host.started["rollout-1"]) == 1
        stage.host.failure = None
        await stage.ask(2)
        await stage.until("rollout-0", "rollout-1")


async def test_an_engine_of_the_start_that_cannot_work_ends_the_run(store: LocalStore):
    host = Host({"": 9})
    host.failure = DependencyError("the node lacks vllm")
    async with Stage(store, host, 2) as stage:
        (supervising, _) = stage.tasks
        with pytest.raises(ExceptionGroup) as raised:
            await asyncio.wait_for(supervising, WAIT_S)
        assert "the node lacks vllm" in str(raised.value.exceptions[0])


def test_a_resumed_run_gets_the_number_that_was_recorded_last(
    tmp_path: Path, quickstart: RunConfig
):
    directory = starting.create(tmp_path / "run", quickstart)
    assert recorded_scale(directory.path) == ()
    journal = Journal.open(directory.store)
    records = [
        RolloutScaled(cause="start", actors=1, engines=("rollout-0",)),
        RolloutScaled(cause="request", actors=3, engines=("rollout-0", "rollout-1")),
        ScaleRefused(request_id="r", reason="too many"),
    ]
    write(journal, records)
    journal.close()
    assert recorded_scale(directory.path) == ("rollout.actors=3",)


def test_a_change_is_told_in_words():
    scaled = RolloutScaled(cause="nodes", actors=3, engines=())
    assert scale_sentence(scaled) == "rollout engines: none (nodes joined or left the cluster)"


REQUEST = RolloutRequest(
    group_id="g0",
    group=0,
    index=0,
    group_size=2,
    task_id="t",
    seed=0,
    policy_version_at_least=0,
)

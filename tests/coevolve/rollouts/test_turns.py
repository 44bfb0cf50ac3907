import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from coevolve.journal.codec import decode, encode, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.learning.turns import LearnerTurns
from coevolve.rollouts.turns import EngineTurns, open_turn
from protocols.config import DeliveryConfig, RolloutConfig, RunConfig, VllmEngine
from protocols.control import RolloutScaled
from protocols.errors import LearnerError
from protocols.journal import Append, Message, Receipt
from protocols.learning import EngineAsleep, StepReport, TurnBegan, TurnEnded
from tests.contexts import context_of

WAIT_S = 30.0


class Sleeper:
    """An engine that notes what it did."""

    def __init__(self) -> None:
        self.did: asyncio.Queue[str] = asyncio.Queue()
        self.is_asleep = False

    async def sleep(self) -> None:
        self.is_asleep = True
        self.did.put_nowait("sleep")

    async def wake(self) -> None:
        self.is_asleep = False
        self.did.put_nowait("wake")


class Shared:
    """A device with engines and a learner, on a real journal."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(Journal.open(folder, map_size_bytes=1 << 28))
        self._counter = 0
        self.stopping = asyncio.Event()
        self.engines: dict[str, Sleeper] = {}
        self.locks: dict[str, asyncio.Lock] = {}
        self._running: list[asyncio.Task[None]] = []

    async def append(self, messages: Sequence[Message]) -> tuple[int, ...]:
        self._counter += 1
        receipt = Receipt(producer="test", counter=self._counter)
        return await self.store.append(
            Append(records=tuple(map(encode, messages)), receipt=receipt)
        )

    def start_engine(self, name: str) -> Sleeper:
        engine = self.engines[name] = Sleeper()
        self.locks[name] = asyncio.Lock()
        turns = EngineTurns(context_of(RunConfig(name="test"), self.store), name, engine)
        self._running.append(asyncio.create_task(turns.run(self.locks[name])))
        return engine

    async def scale(self, *engines: str) -> None:
        """Record which engines the run has."""
        await self.append([RolloutScaled(actors=len(engines), engines=engines, cause="start")])

    async def learner(
        self, *engines: str, sleeps: bool = True, timeout_s: float = 20.0
    ) -> LearnerTurns:
        await self.scale(*engines)
        config = RunConfig(
            name="test",
            rollout=RolloutConfig(engine=VllmEngine(sleeps=sleeps)),
            delivery=DeliveryConfig(timeout_s=timeout_s),
        )
        return LearnerTurns(context_of(config, self.store), self.stopping, self.append)

    async def all(self, *kinds: type[Message]) -> list[Message]:
        """Return the messages of these kinds, by sequence."""
        found = [each for kind in kinds for each in await self.store.scan(topic_of(kind))]
        return [decode(each) for each in sorted(found, key=lambda record: record.sequence)]

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    device = Shared(tmp_path)
    async with asyncio.timeout(WAIT_S):
        yield device
    await device.close()


async def test_the_learner_computes_only_while_every_engine_sleeps(shared: Shared):
    engines = [shared.start_engine("rollout-0"), shared.start_engine("rollout-1")]
    turns = await shared.learner("rollout-0", "rollout-1")
    for step in (1, 2):
        async with turns.taken(step) as has_device:
            assert has_device
            assert all(engine.is_asleep for engine in engines)
            # Weights change under the same lock.
            assert all(lock.locked() for lock in shared.locks.values())
        for engine in engines:
            assert [await engine.did.get(), await engine.did.get()] == ["sleep", "wake"]
    began = await shared.all(TurnBegan)
    assert began == [TurnBegan(step=1), TurnBegan(step=2)]
    assert len(await shared.all(EngineAsleep)) == 4
    assert len(await shared.all(TurnEnded)) == 2


async def test_an_engine_that_does_not_sleep_ends_the_turn_with_its_name(shared: Shared):
    shared.start_engine("rollout-0")
    turns = await shared.learner("rollout-0", "rollout-1", timeout_s=0.2)
    with pytest.raises(LearnerError, match=r"sleeps\); rollout-1 did not within"):
        async with turns.taken(1):
            raise AssertionError("computed")
    assert await open_turn(shared.store) is None


async def test_no_turn_waits_for_an_engine_that_has_left_the_run(shared: Shared):
    shared.start_engine("rollout-0")
    turns = await shared.learner("rollout-0", "rollout-1")
    leaving = asyncio.create_task(leave(shared))
    async with turns.taken(1) as has_device:
        assert has_device
        assert leaving.done()


async def leave(shared: Shared) -> None:
    """Let an engine leave once the other one sleeps."""
    while not await shared.all(EngineAsleep):
        await shared.store.wait((topic_of(EngineAsleep),), 0, WAIT_S)
    await shared.scale("rollout-0")


async def test_a_run_that_is_stopped_waits_for_no_engine(shared: Shared):
    turns = await shared.learner("rollout-0")
    shared.stopping.set()
    async with turns.taken(1) as has_device:
        assert not has_device
    assert await open_turn(shared.store) is None


async def test_an_engine_that_starts_during_a_turn_sleeps_and_says_so(shared: Shared):
    turns = await shared.learner("rollout-0")

    async def step() -> None:
        async with turns.taken(1):
            assert shared.engines["rollout-0"].is_asleep

    stepping = asyncio.create_task(step())
    while not await shared.all(TurnBegan):
        await shared.store.wait((topic_of(TurnBegan),), 0, WAIT_S)
    engine = shared.start_engine("rollout-0")
    await stepping
    assert [await engine.did.get(), await engine.did.get()] == ["sleep", "wake"]


async def test_after_the_death_of_a_learner_in_its_turn_engines_sleep_until_the_next_recovered(
    shared: Shared,
):
    engine = shared.start_engine("rollout-0")
    report = StepReport(step=1, groups=(), weights_digest="", groups_consumed=1, metrics={})
    await shared.append([report, TurnBegan(step=2)])
    assert await engine.did.get() == "sleep"
    turns = await shared.learner("rollout-0")
    async with turns.recovering():
        assert engine.is_asleep
    assert await engine.did.get() == "wake"
    asked = await shared.all(TurnBegan, TurnEnded)
    assert asked == [TurnBegan(step=2), TurnBegan(step=0), TurnEnded()]


async def test_without_engines_that_sleep_nothing_is_recorded_or_waited_for(shared: Shared):
    turns = await shared.learner("rollout-0", sleeps=False)
    async with turns.recovering():
        pass
    async with turns.taken(1):
        pass
    # Neither does the start of a run with them wait for engines that are still loading.
    sleeping = await shared.learner("rollout-0")
    async with sleeping.recovering():
        pass
    assert not await shared.all(TurnBegan, EngineAsleep, TurnEnded)

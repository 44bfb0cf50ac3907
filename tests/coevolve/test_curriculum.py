import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coevolve.config import most_groups_in_flight
from coevolve.curriculum import Curriculum
from coevolve.journal.codec import decode_as, encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.config import RunConfig
from protocols.control import RunStarted
from protocols.journal import Append, Message, Receipt
from protocols.learning import GroupDiscarded, StepReport
from protocols.rollouts import RolloutRequest
from protocols.tasks import Task
from tests.fakes import tool_task


class CountingSource:
    """A fresh task for every group."""

    def pool(self) -> Sequence[Task]:
        return ()

    def draw(self, number: int) -> tuple[Task, bool]:
        return tool_task("a", task_id=f"task-{number}"), True

    def held_out(self) -> Sequence[Task]:
        return ()


class Desk:
    """A journal, a curriculum at work on it, and the learner's side of the conversation."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self._folder = folder
        self._config = config
        self._writes = 0
        self.journal = Journal.open(folder)
        self.store = LocalStore(self.journal)
        self.start()

    def start(self) -> None:
        self.curriculum = Curriculum(
            self._config, store=self.store, reader=self.store, source=CountingSource()
        )
        self.running = asyncio.create_task(self.curriculum.run())

    async def say(self, message: Message) -> None:
        self._writes += 1
        receipt = Receipt(producer="test", counter=self._writes)
        await self.store.append(Append(records=(encode(message),), receipt=receipt))

    async def groups(self, count: int) -> Counter[int]:
        """Wait until ``count`` groups were asked for; return requests by group number."""
        size, seen = self._config.rollout.group_size, 0
        while True:
            records = await self.store.scan("rollout_request", limit=10_000)
            if len(records) >= count * size:
                return Counter(decode_as(record, RolloutRequest).group for record in records)
            seen = await self.store.wait(("rollout_request",), seen, 10)

    async def close(self) -> None:
        await self.curriculum.stop()
        await self.running
        self.journal.close()


def stepped(step: int, consumed: int) -> StepReport:
    return StepReport(step=step, groups=(), weights_digest="", groups_consumed=consumed, metrics={})


STARTED = RunStarted(run_id="r", config="{}")


def of(config: RunConfig, **tasks: int) -> RunConfig:
    tree = msgspec.to_builtins(config)
    tree["learner"] |= {"steps": 4, "groups_per_step": 2, "max_staleness": 1}
    tree["tasks"] |= {"in_flight_groups": 0, **tasks}
    return msgspec.convert(tree, RunConfig)


async def test_no_more_is_asked_for_than_staleness_allows(tmp_path: Path, quickstart: RunConfig):
    config = of(quickstart)
    assert most_groups_in_flight(config) == 4
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    assert set(await desk.groups(4)) == {0, 1, 2, 3}
    await desk.say(stepped(1, consumed=2))
    groups = await desk.groups(6)
    assert groups == Counter(dict.fromkeys(range(6), config.rollout.group_size))
    newest = await desk.store.last("rollout_request")
    assert newest is not None
    assert decode_as(newest, RolloutRequest).policy_version_at_least == 1
    await desk.close()


async def test_the_configured_steps_and_the_discarded_groups_are_all_that_is_asked_for(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart))
    await desk.say(STARTED)
    for step in (1, 2, 3):
        await desk.say(stepped(step, consumed=2 * step))
    assert set(await desk.groups(8)) == set(range(8))
    await desk.say(
        GroupDiscarded(
            group_id="g6",
            group=6,
            task_id="task-6",
            reason="stale",
            successes=0,
            rollouts=8,
            groups_consumed=7,
        )
    )
    assert set(await desk.groups(9)) == set(range(9))
    await desk.close()


async def test_a_curriculum_that_is_started_again_asks_for_no_group_twice(
    tmp_path: Path, quickstart: RunConfig
):
    config = of(quickstart)
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    await desk.groups(4)
    desk.running.cancel()
    await asyncio.wait([desk.running])
    await desk.say(stepped(1, consumed=2))
    desk.start()
    assert await desk.groups(6) == Counter(dict.fromkeys(range(6), config.rollout.group_size))
    await desk.close()

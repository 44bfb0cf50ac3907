import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from coevolve.curriculum.task_sampler import sampler_of
from coevolve.curriculum.worker import Curriculum, Instantiate
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.filesystem.environment import StaticSource, UniformSource
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from coevolve.environments.tools.synthesis.brief import Start
from coevolve.journal.codec import decode, decode_as, encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.paging import PAGE
from coevolve.journal.snapshots import SPAN
from protocols.config import RunConfig
from protocols.control import (
    DeadLetter,
    PartsRest,
    RunContinued,
    RunPaused,
    RunStarted,
    Stalled,
    StateSnapshot,
)
from protocols.errors import ContractError, LeakError, LeaseLostError
from protocols.evolution import (
    NO_READING,
    GroupSummary,
    ModelRests,
    Parked,
    ReaderAnswers,
    ReaderRests,
)
from protocols.interfaces import TaskSource
from protocols.journal import Append, Message, Receipt, StoredRecord
from protocols.learning import GroupDiscarded, StepReport, TrainedGroup
from protocols.rollouts import RolloutRequest
from protocols.tasks import Instantiated, Task, attempted
from tests import evolving
from tests.contexts import context_of
from tests.evolving import admission, candidate, settled, signal, swapped, verdict
from tests.fakes import tool_task

STARTED = RunStarted(run_id="r", config="{}")
PAUSED, CONTINUED = RunPaused(run_id="r"), RunContinued(run_id="r")


class FewSeeds:
    """Three seed tasks, or a fresh task for every group."""

    def __init__(self, *, fresh: bool = False) -> None:
        self._fresh = fresh

    def pool(self) -> Sequence[Task]:
        return () if self._fresh else [evolving.seed(f"seed-{number}") for number in range(3)]

    def draw(self, number: int) -> tuple[Task, bool]:
        if self._fresh:
            return tool_task("a", task_id=f"task-{number}"), True
        return self.pool()[number % 3], False

    def held_out(self) -> Sequence[Task]:
        return ()

    def canaries(self, count: int) -> Sequence[Task]:
        return ()

    def start(self, number: int) -> Start:
        return Start(origin="test", classes=(), world="{}")


class Desk:
    """A journal, a curriculum that works on it, and the other parts' side of the exchange."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        source: TaskSource | None = None,
        instantiate: Instantiate | None = None,
    ) -> None:
        self._config = config
        self._instantiate = instantiate
        self._source = source or FewSeeds(fresh=config.arm == "uniform")
        self._writes = 0
        self.journal = Journal.open(folder)
        self.store = LocalStore(self.journal)
        self.start()

    def start(self) -> None:
        self.curriculum = Curriculum(
            context_of(self._config, self.store, "curriculum"),
            open_sampler=lambda: sampler_of(self._config, self._source),
            held_out=self._source.held_out(),
            instantiate=self._instantiate,
        )
        self.running = asyncio.create_task(self.curriculum.run())

    async def kill(self) -> None:
        """Cancel the curriculum at an arbitrary point."""
        self.running.cancel()
        await asyncio.wait([self.running])

    async def say(self, *messages: Message) -> None:
        self._writes += 1
        receipt = Receipt(producer="test", counter=self._writes)
        await self.store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))

    async def requests(self) -> list[RolloutRequest]:
        records = await self.store.scan("rollout_request", limit=100_000)
        return [decode_as(record, RolloutRequest) for record in records]

    async def groups(self, count: int) -> Counter[int]:
        """Wait until ``count`` groups were requested; return requests by group number."""
        size, seen = self._config.rollout.group_size, 0
        while len(found := await self.requests()) < count * size:
            seen = await self.store.wait(("rollout_request",), seen, 10)
        return Counter(request.group for request in found)

    async def tasks(self, count: int) -> list[str]:
        """Wait until ``count`` groups were requested; return the task of each."""
        await self.groups(count)
        return [request.task_id for request in await self.requests() if request.index == 0]

    async def standing(self, words: str) -> None:
        """Wait until the curriculum's status shows ``words``."""
        for _ in range(1000):
            if words in self.curriculum.status().waits_for:
                return
            await asyncio.sleep(0.01)
        raise TimeoutError(f"{words!r} never was in {self.curriculum.status().waits_for!r}")

    async def close(self) -> None:
        await self.curriculum.stop()
        await self.running
        self.journal.close()


def stepped(step: int, consumed: int, *groups: int) -> StepReport:
    trained = [
        TrainedGroup(
            group_id=f"g{number}",
            group=number,
            task_id="?",
            sequences=(),
            successes=1,
            use="policy_gradient",
        )
        for number in groups
    ]
    return StepReport(
        step=step, groups=tuple(trained), weights_digest="", groups_consumed=consumed, metrics={}
    )


def discarded(group: int, consumed: int) -> GroupDiscarded:
    return GroupDiscarded(
        group_id=f"g{group}",
        group=group,
        task_id=f"task-{group}",
        reason="stale",
        successes=0,
        rollouts=8,
        groups_consumed=consumed,
    )


def visits(desk_tasks: Sequence[str], *groups: int, successes: int = 4) -> list[GroupSummary]:
    return [
        msgspec.structs.replace(evolving.visit(desk_tasks[group], successes), group=group)
        for group in groups
    ]


def of(config: RunConfig, arm: str = "uniform", **settings: object) -> RunConfig:
    """Four steps of two groups, four groups in flight; ``settings`` of the root or the pool."""
    tree = msgspec.to_builtins(config) | {"arm": arm, "evolve_every": 0}
    tree["learner"] |= {"steps": 4, "groups_per_step": 2, "max_staleness": 1}
    tree["rollout"]["in_flight_groups"] = 0
    tree["pool"] |= {"retired_share": 0.0}
    for name, value in settings.items():
        section = (
            tree if name in tree else tree["pool"] if name in tree["pool"] else tree["learner"]
        )
        section[name] = value
    return msgspec.convert(tree, RunConfig)


async def instance_of(task: Task, instance: int) -> Task | None:
    """Return an instance of every task but ``seed-1``."""
    if task.task_id == "seed-1":
        return None
    return msgspec.structs.replace(
        task,
        task_id=attempted(task.task_id, instance),
        origin=Instantiated(root=task.task_id, instance=instance),
    )


@pytest.mark.parametrize("arm", ["static", "full"])
async def test_no_two_groups_attempt_the_same_instance(
    tmp_path: Path, quickstart: RunConfig, arm: str
):
    desk = Desk(tmp_path, of(quickstart, arm), FewSeeds(), instance_of)
    await desk.say(STARTED)
    await desk.groups(4)
    await desk.kill()
    desk.start()
    await desk.say(stepped(1, 2, 0, 1))
    await desk.groups(6)
    requests = await desk.requests()
    tasks = [decode_as(record, Task) for record in await desk.store.scan("task")]
    made = {task.task_id: task.origin for task in tasks}
    by_group: dict[int, set[tuple[str, int]]] = {}
    for each in requests:
        by_group.setdefault(each.group, set()).add((each.task_id, each.instance))
    attempts = [group.pop() for group in by_group.values() if len(group) == 1]
    assert len(attempts) == 6
    others = [each for each in attempts if each[0] != "seed-1"]
    assert len(set(others)) == len(others) > 1
    for task_id, instance in attempts:
        if task_id == "seed-1":
            assert instance == 0
        else:
            assert made[attempted(task_id, instance)] == Instantiated(
                root=task_id, instance=instance
            )
    await desk.close()


async def test_the_instances_of_a_group_follow_from_the_runs_seed(
    tmp_path: Path, quickstart: RunConfig
):
    found: list[list[int]] = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        desk = Desk(tmp_path / name, of(quickstart, "static", seed=seed), FewSeeds(), instance_of)
        await desk.say(STARTED)
        await desk.groups(4)
        found.append([each.instance for each in await desk.requests()])
        await desk.close()
    assert found[0] == found[1] != found[2]


async def test_the_reference_of_a_made_task_may_be_imitated_once_it_is_confirmed(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart, "full", synthetic_share=1.0))
    tasks = [evolving.made(name, f"c-{name}", "s") for name in ("unread", "read")]
    verdicts = [
        verdict(f"c-{name}", "s", evolving.admitted(name, 0), reading=reading)
        for name, reading in (("unread", NO_READING), ("read", evolving.CONFIRMED))
    ]
    await desk.say(*tasks, *verdicts, STARTED)
    await desk.groups(4)
    imitable = {each.task_id: each.imitable for each in await desk.requests()}
    assert (imitable.pop("unread"), imitable.pop("read")) == (False, True)
    assert [*imitable.values()] == [True, True]  # those of seed tasks
    await desk.close()


class Leaky(FewSeeds):
    """Draws a held-out task, at once or for a later group."""

    def pool(self) -> Sequence[Task]:
        return [msgspec.structs.replace(each, split="held_out") for each in super().pool()]

    def draw(self, number: int) -> tuple[Task, bool]:
        task, is_new = super().draw(number)
        return msgspec.structs.replace(task, split="held_out"), is_new


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_held_out_task_is_never_asked_for(
    tmp_path: Path, quickstart: RunConfig, fresh: bool
):
    desk = Desk(tmp_path, of(quickstart), Leaky(fresh=fresh))
    await desk.say(STARTED)
    with pytest.raises(LeakError, match=r"needs tasks of the split train, found .* held_out"):
        await asyncio.wait_for(desk.running, 10)
    assert not await desk.requests()
    assert await desk.store.last("task") is None


class Overlapping(FewSeeds):
    """Holds out training tasks, under the same ids or under others."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def held_out(self) -> Sequence[Task]:
        last = self.pool()[-1]
        body = last.body if self._name != last.task_id else tool_task("another").body
        return [msgspec.structs.replace(last, task_id=self._name, split="held_out", body=body)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("seed-2", "found the id of a held-out task"),
        ("another", "found the content of the held-out task 'another'"),
    ],
)
async def test_held_out_tasks_are_not_trained_on_under_any_id(
    tmp_path: Path, quickstart: RunConfig, name: str, words: str
):
    desk = Desk(tmp_path, of(quickstart, "static"), Overlapping(name))
    await desk.say(STARTED)
    with pytest.raises(LeakError, match=words):
        await asyncio.wait_for(desk.running, 10)
    assert await desk.store.last("task") is None


class Unknown(FewSeeds):
    """Draws a task that it never offered."""

    def draw(self, number: int) -> tuple[Task, bool]:
        return evolving.seed("never heard of"), False


async def test_a_draw_of_an_unknown_task_is_refused(tmp_path: Path, quickstart: RunConfig):
    desk = Desk(tmp_path, of(quickstart, "static"), Unknown())
    await desk.say(STARTED)
    with pytest.raises(ContractError, match="'never heard of': the environment's sampler"):
        await asyncio.wait_for(desk.running, 10)
    assert not await desk.requests()


async def test_requests_never_exceed_the_staleness_bound(tmp_path: Path, quickstart: RunConfig):
    config = of(quickstart)
    assert config.most_groups_in_flight == 4
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    assert set(await desk.groups(4)) == {0, 1, 2, 3}
    await desk.say(stepped(1, 2))
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
        await desk.say(stepped(step, 2 * step))
    assert set(await desk.groups(8)) == set(range(8))
    await desk.say(discarded(6, consumed=7))
    assert set(await desk.groups(9)) == set(range(9))
    await desk.close()


async def test_a_curriculum_that_is_started_again_asks_for_no_group_twice(
    tmp_path: Path, quickstart: RunConfig
):
    config = of(quickstart)
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    await desk.groups(4)
    await desk.kill()
    await desk.say(stepped(1, 2))
    desk.start()
    assert await desk.groups(6) == Counter(dict.fromkeys(range(6), config.rollout.group_size))
    await desk.close()


async def test_a_curriculum_that_is_started_again_reads_no_record_before_its_snapshot(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart, "full"))
    await desk.say(STARTED)
    await desk.groups(4)
    await desk.say(*SPAN * [Stalled(quiet_s=1.0, waiting=())])
    await desk.say(stepped(1, 2, 0, 1))
    await desk.groups(6)
    await desk.kill()
    [record] = await desk.store.scan("state_snapshot")
    snapshot = decode_as(record, StateSnapshot)
    assert snapshot.through > SPAN
    desk.store = witness = Witness(desk.journal)
    desk.start()
    await desk.say(stepped(2, 4, 2, 3))
    assert set(await desk.groups(8)) == set(range(8))
    assert witness.oldest["rollout_request"] > snapshot.through
    assert "run_started" not in witness.oldest
    await desk.close()


class Witness(LocalStore):
    """A store that remembers the oldest record that was read of each topic."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.oldest: dict[str, int] = {}

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        records = await super().scan(topic, after, limit)
        for record in records[:1] if limit <= PAGE else ():
            self.oldest.setdefault(topic, record.sequence)
        return records


@pytest.mark.parametrize(("arm", "kind"), [("uniform", UniformSource), ("static", StaticSource)])
async def test_the_arms_without_synthesis_take_what_the_source_draws(
    tmp_path: Path, quickstart: RunConfig, arm: str, kind: type[UniformSource] | type[StaticSource]
):
    config = of(quickstart, arm)
    source = kind(config.seed, settings_of(config, FilesystemConfig))
    desk = Desk(tmp_path, config, source)
    await desk.say(STARTED, *admission("c", "s", "made"))
    assert await desk.tasks(4) == [source.draw(number)[0].task_id for number in range(4)]
    _, *known = (decode_as(record, Task) for record in await desk.store.scan("task", limit=10_000))
    fresh = [source.draw(number)[0] for number in range(4)] if arm == "uniform" else []
    assert known == [*source.pool(), *fresh]
    await desk.close()


@pytest.mark.parametrize("arm", ["full", "random", "placebo"])
async def test_the_arms_with_synthesis_begin_with_seed_tasks_and_go_on_with_their_own(
    tmp_path: Path, quickstart: RunConfig, arm: str
):
    desk = Desk(tmp_path, of(quickstart, arm, synthetic_share=0.5))
    await desk.say(STARTED)
    tasks = await desk.tasks(4)
    assert sorted(tasks[:3]) == ["seed-0", "seed-1", "seed-2"]  # none twice while in flight
    assert await desk.store.last("task")
    await desk.say(*(each for n in range(9) for each in admission(f"c{n}", "s", f"made-{n}")))
    await desk.say(stepped(1, 2, 0, 1))
    await desk.say(stepped(2, 4, 2, 3))
    tasks = await desk.tasks(8)
    assert len(set(tasks[4:])) == 4
    assert all(task.startswith("made-") for task in tasks[4:])  # 4 of 8: the share allows it
    await desk.say(discarded(4, consumed=5))
    assert (await desk.tasks(9))[8].startswith("seed-")  # 5 of 9 would be too many
    await desk.close()


async def test_the_seeds_of_a_group_depend_on_the_run_and_its_number_alone(
    tmp_path: Path, quickstart: RunConfig
):
    seeds: dict[str, list[int]] = {}
    for arm in ("uniform", "full"):
        desk = Desk(tmp_path / arm, of(quickstart, arm))
        await desk.say(STARTED)
        await desk.groups(4)
        seeds[arm] = [request.seed for request in await desk.requests()]
        await desk.close()
    assert seeds["uniform"] == seeds["full"]
    assert len(set(seeds["full"])) == 4 * quickstart.rollout.group_size


async def test_nothing_is_asked_for_while_the_run_is_paused_also_after_a_restart(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart))
    await desk.say(STARTED)
    await desk.groups(4)
    await desk.say(PAUSED)
    await desk.say(stepped(1, 2))
    await desk.standing("the pause to end (2 of 4 in flight)")
    await desk.kill()
    desk.start()
    await desk.standing("the pause to end (2 of 4 in flight)")
    assert len(await desk.groups(4)) == 4
    await desk.say(CONTINUED)
    assert set(await desk.groups(6)) == set(range(6))
    await desk.kill()
    desk.start()
    await desk.say(stepped(2, 4))
    assert set(await desk.groups(8)) == set(range(8))
    await desk.close()


async def test_a_run_that_is_paused_before_its_first_group_starts_when_it_is_continued(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart))
    await desk.say(STARTED, PAUSED)
    await desk.standing("the pause to end (0 of 4 in flight)")
    await desk.kill()
    desk.start()
    await desk.say(CONTINUED)
    assert set(await desk.groups(4)) == set(range(4))
    await desk.close()


async def test_a_cycle_ends_when_every_visit_signal_and_candidate_is_settled(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart, "full", evolve_every=1, synthetic_share=1.0))
    await desk.say(STARTED)
    tasks = await desk.tasks(2)  # room for four, but the cycle has one step
    await desk.say(*admission("c0", "s0", "early"))
    await desk.say(discarded(0, consumed=1))
    tasks = await desk.tasks(3)
    assert all(task.startswith("seed-") for task in tasks)  # what is admitted waits
    await desk.say(*visits(tasks, 0), stepped(1, 3, 1, 2))
    await desk.standing("what the steps up to 1 set in motion: visits (2)")
    await desk.say(*visits(tasks, 1, 2), signal("s1", tasks[0]), signal("s2", tasks[1]))
    await desk.standing("up to 1 set in motion: signals to be settled (2)")
    await desk.kill()
    desk.start()
    await desk.standing("up to 1 set in motion: signals to be settled (2)")
    await desk.say(candidate("c1", "s1"), candidate("c2", "s1"), settled("s1", 2), settled("s2"))
    await desk.standing("up to 1 set in motion: verdicts (2)")
    await desk.say(verdict("c1", "s1", Parked(probe_rollouts=4)))
    await desk.standing("up to 1 set in motion: verdicts (1)")
    assert len(await desk.groups(3)) == 3
    await desk.say(*admission("c2", "s1", "late"))
    tasks = await desk.tasks(5)
    assert sorted(tasks[3:]) == ["early", "late"]
    await desk.standing("the learner to consume groups (2 of 4 in flight)")
    await desk.close()


async def test_a_cycle_waits_for_no_verdicts_while_the_reader_rests(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart, "full", evolve_every=1))
    await desk.say(STARTED)
    tasks = await desk.tasks(2)
    await desk.say(*visits(tasks, 0, 1), signal("s1", tasks[0]), candidate("c1", "s1"))
    await desk.say(settled("s1", 1), stepped(1, 2))
    await desk.standing("up to 1 set in motion: verdicts (1)")
    await desk.say(ReaderRests(failures=3, reason="no answer"))
    await desk.groups(4)
    await desk.say(ReaderAnswers(), stepped(2, 4), *visits(await desk.tasks(4), 2, 3))
    await desk.standing("up to 2 set in motion: verdicts (1)")
    await desk.close()


async def test_a_cycle_waits_again_once_a_model_that_rests_was_swapped(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart, "full", evolve_every=1))
    await desk.say(STARTED)
    tasks = await desk.tasks(2)
    await desk.say(ModelRests(synthesizer="glm", failures=3, reason="no answer"))
    await desk.say(*visits(tasks, 0, 1), signal("s1", tasks[0]), stepped(1, 2))
    tasks = await desk.tasks(4)  # the signal waits, and the cycle does not
    await desk.say(swapped(), *visits(tasks, 2, 3), stepped(2, 4))
    await desk.standing("up to 2 set in motion: signals to be settled (1)")
    await desk.kill()
    desk.start()
    await desk.standing("up to 2 set in motion: signals to be settled (1)")
    await desk.say(settled("s1"))
    await desk.groups(6)
    await desk.close()


def dead(consumer: str, subject: str) -> DeadLetter:
    return DeadLetter(
        consumer=consumer, sequence=1, unit=subject, subject=subject, attempts=3, reason="broken"
    )


async def test_a_cycle_does_not_wait_for_work_that_was_given_up(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, of(quickstart, "full", evolve_every=1))
    await desk.say(STARTED)
    tasks = await desk.tasks(2)
    await desk.say(*visits(tasks, 0), signal("s1", tasks[0]), settled("s1", 2))
    await desk.say(candidate("c1", "s1"), candidate("c2", "s1"), stepped(1, 2))
    await desk.standing("up to 1 set in motion: visits (1), verdicts (2)")
    await desk.say(dead("signals", "1"))
    await desk.standing("up to 1 set in motion: verdicts (2)")
    await desk.say(dead("validator", "c1"), dead("rollout", "c2"))
    await desk.standing("up to 1 set in motion: verdicts (1)")
    await desk.say(dead("validator", "c2"))
    await desk.groups(4)
    await desk.close()


@pytest.mark.parametrize("part", ["signals", "synthesizer", "validator"])
async def test_a_cycle_waits_for_no_tasks_while_a_part_that_makes_them_rests(
    tmp_path: Path, quickstart: RunConfig, part: str
):
    desk = Desk(tmp_path, of(quickstart, "full", evolve_every=1))
    await desk.say(STARTED)
    tasks = await desk.tasks(2)
    await desk.say(*visits(tasks, 0, 1), signal("s1", tasks[0]), stepped(1, 2))
    await desk.say(PartsRest(causes={"evaluator": "broken"}))
    await desk.standing("up to 1 set in motion: signals to be settled (1)")
    await desk.say(PartsRest(causes={"evaluator": "broken", part: "broken"}))
    await desk.groups(4)
    await desk.say(PartsRest(causes={}), *visits(await desk.tasks(4), 2, 3), stepped(2, 4))
    await desk.standing("up to 2 set in motion: signals to be settled (1)")
    await desk.close()


async def test_the_last_cycle_waits_for_nothing(tmp_path: Path, quickstart: RunConfig):
    desk = Desk(tmp_path, of(quickstart, "full", evolve_every=3))
    await desk.say(STARTED)
    await desk.say(stepped(1, 2), stepped(2, 4))
    tasks = await desk.tasks(6)
    await desk.say(stepped(3, 6), *visits(tasks, *range(6)))
    await desk.groups(8)  # the fourth and last step
    await desk.say(stepped(4, 8))
    await desk.standing("the learner to consume groups (0 of 4 in flight)")
    await desk.close()


async def test_training_goes_on_without_synthesis_that_takes_too_long(
    tmp_path: Path, quickstart: RunConfig, capsys: pytest.CaptureFixture[str]
):
    config = of(quickstart, "full", evolve_every=1, evolve_wait_s=0.2, synthetic_share=1.0)
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    tasks = await desk.tasks(2)
    await desk.say(*admission("c0", "s0", "made"), signal("s1", tasks[0]))
    await desk.say(stepped(1, 2, 0, 1), *visits(tasks, 0, 1))
    tasks = await desk.tasks(4)
    assert "made" in tasks[2:]
    assert "signals to be settled (1)" in capsys.readouterr().out
    await desk.kill()
    desk.start()
    await desk.say(settled("s1"), *visits(tasks, 2, 3), stepped(2, 4, 2, 3))
    await desk.groups(6)
    await desk.close()


async def test_a_pause_stops_the_clock_of_a_cycle(tmp_path: Path, quickstart: RunConfig):
    config = of(quickstart, "full", evolve_every=1, evolve_wait_s=0.2)
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    await desk.groups(2)
    await desk.say(PAUSED)
    await desk.say(stepped(1, 2, 0, 1))
    await desk.standing("the pause to end")
    await asyncio.sleep(0.4)
    await desk.say(CONTINUED)
    await desk.standing("what the steps up to 1 set in motion: visits (2)")
    assert len(await desk.groups(2)) == 2
    await desk.groups(4)
    await desk.close()


async def test_a_curriculum_that_was_replaced_while_it_lives_asks_for_nothing_more(
    tmp_path: Path, quickstart: RunConfig
):
    config = of(quickstart)
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    await desk.groups(4)
    replaced = desk.running
    desk.start()
    await desk.standing("the learner to consume groups (4 of 4 in flight)")
    await desk.say(stepped(1, 2))
    assert await desk.groups(6) == Counter(dict.fromkeys(range(6), config.rollout.group_size))
    with pytest.raises(LeaseLostError):
        await replaced
    await desk.close()


class RestOfTheLoop:
    """Consumes and summarizes groups and admits tasks, in random order."""

    def __init__(self, desk: Desk, config: RunConfig, rng: np.random.Generator) -> None:
        self._desk = desk
        self._per_step = config.learner.groups_per_step
        self._rng = rng
        self._consumed = self._made = self._visited = 0
        self.steps = 0

    async def turn(self) -> None:
        """Do one step that the requests so far allow."""
        requests = [each for each in await self._desk.requests() if each.index == 0]
        tasks, open_ = [each.task_id for each in requests], len(requests) - self._consumed
        match int(self._rng.integers(4)):
            case 0 if open_ >= self._per_step:
                groups = range(self._consumed, self._consumed + self._per_step)
                self._consumed += self._per_step
                self.steps += 1
                await self._desk.say(stepped(self.steps, self._consumed, *groups))
            case 1 if open_ > self._per_step and self._rng.random() < 0.3:
                self._consumed += 1
                await self._desk.say(discarded(self._consumed - 1, self._consumed))
            case 2 if self._visited < len(tasks):
                successes = int(self._rng.integers(9))
                await self._desk.say(*visits(tasks, self._visited, successes=successes))
                self._visited += 1
            case 3 if self._made < 12:
                self._made += 1
                name = f"m{self._made}"
                await self._desk.say(candidate(name, "s"), *admission(name, "s", f"made-{name}"))
            case _:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("evolve_every", [0, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_a_curriculum_killed_at_any_moment_leaves_no_gap_and_repeats_nothing(
    tmp_path: Path, quickstart: RunConfig, seed: int, evolve_every: int
):
    config = of(quickstart, "full", evolve_every=evolve_every, steps=12, retired_share=0.2)
    rng = np.random.default_rng(seed)
    desk = Desk(tmp_path, config)
    await desk.say(STARTED)
    rest = RestOfTheLoop(desk, config, rng)
    kills = 0
    while rest.steps < config.learner.steps:
        await rest.turn()
        if rng.random() < 0.2:
            await asyncio.sleep(float(rng.random()) * 0.004)
            await desk.kill()
            desk.start()
            kills += 1
    assert kills > 2
    await desk.close()
    _check_history(tmp_path, config)


def _check_history(folder: Path, config: RunConfig) -> None:
    """Check every request of the journal, in the order of writing."""
    journal = Journal.open(folder)
    with journal.snapshot() as state:
        last = state.newest("step_report")
        messages = [decode(record) for record in state.read(range(1, last + 1))]
    journal.close()
    expected, consumed, admitted_so_far, made = 0, 0, {"seed-0", "seed-1", "seed-2"}, 0
    size = config.rollout.group_size
    for message in messages:
        match message:
            case RolloutRequest(group=group, index=index, task_id=task_id):
                assert (group, index) == divmod(expected, size)
                assert group < consumed + config.most_groups_in_flight
                assert task_id in admitted_so_far
                made += index == 0 and task_id.startswith("made")
                assert made <= config.pool.synthetic_share * (group + 1)
                expected += 1
            case StepReport(groups_consumed=consumed) | GroupDiscarded(groups_consumed=consumed):
                pass
            case _ if isinstance(message, Task):
                admitted_so_far.add(message.task_id)
            case _:
                admitted_so_far |= _admitted_by(message)
    assert expected == consumed * size
    assert made > 0
    tasks = [message.task_id for message in messages if isinstance(message, Task)]
    assert [each for each in tasks if each.startswith("seed")] == ["seed-0", "seed-1", "seed-2"]


def _admitted_by(message: Message) -> set[str]:
    task_id = getattr(getattr(message, "outcome", None), "task_id", None)
    return {task_id} if task_id else set()

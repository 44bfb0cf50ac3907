"""Tests that rollout actors do each request once, although attempts last longer than a lease."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from coevolve.delivery.engine import VerifiedEngine
from coevolve.journal.codec import decode_as, encode, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.rollouts.agent import Episode
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.transcript import Transcript
from coevolve.rollouts.worker import RolloutWorker
from protocols.config import RolloutConfig, RunConfig, StoreConfig
from protocols.errors import SimulatorError
from protocols.evolution import ProbeReport, ProbeRequest
from protocols.generation import Generation
from protocols.journal import Append, Message, Receipt
from protocols.learning import PolicyVersion
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Task
from tests.contexts import context_of
from tests.fakes import ScriptGenerator, tool_task

pytestmark = pytest.mark.usefixtures("short_waits")

LEASE_S = 1.0
ATTEMPT_S = 3 * LEASE_S
WAIT_S = 60.0
TASK = tool_task("a")
VERSION = PolicyVersion(
    version=0, path="versions/v_0", format="full", digest="d", size_bytes=1, kept=True
)


class Slow:
    """Attempts a task for three leases; every ``fails``-th request at a simulator's fault."""

    def __init__(self, fails: int = 0) -> None:
        self.begun = Counter[str]()
        self._fails = fails

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        self.begun[session] += 1
        await asyncio.sleep(ATTEMPT_S)
        if self._fails and seed % self._fails == self._fails - 1:
            raise SimulatorError("the child died")
        transcript = Transcript()
        transcript.feed([1])
        transcript.add(Generation(token_ids=(2,), logprobs=(0.0,), versions=(0,), stopped=True))
        return Episode(
            tokens=transcript.tokens(),
            actions=(),
            turns_passed=1,
            turns_total=1,
            reward=1.0,
            ended="finished",
            versions=(0,),
            oldest_version=0,
            wall_s=ATTEMPT_S,
        )


def worker(
    number: int, concurrent: int, store: LocalStore, agent: Slow, folder: Path
) -> RolloutWorker:
    config = RunConfig(
        name="leases",
        rollout=RolloutConfig(concurrent=concurrent, tries=1),
        store=StoreConfig(lease_s=LEASE_S),
    )
    name = f"rollout-{number}"
    context = context_of(config, store, "rollout", folder=folder)
    return RolloutWorker(
        context,
        name,
        engine=VerifiedEngine(context, name, ScriptGenerator([])),
        agents={"policy": agent},
        served=ServedVersion(),
    )


def appended(producer: str, counter: int, *messages: Message) -> Append:
    receipt = Receipt(producer=producer, counter=counter)
    return Append(records=tuple(map(encode, messages)), receipt=receipt)


def requests(count: int) -> list[RolloutRequest]:
    return [
        RolloutRequest(
            group_id="g",
            group=0,
            index=index,
            group_size=count,
            task_id=TASK.task_id,
            seed=index,
            policy_version_at_least=0,
        )
        for index in range(count)
    ]


class Run(NamedTuple):
    actors: int
    concurrent: int
    rollouts: int
    probes: int = 0
    """Requests for two probes each."""

    fails: int = 0


async def carried_out(run: Run, folder: Path) -> None:
    """Let the actors do all requests; check that each was done once and answered once."""
    journal = Journal.open(folder, map_size_bytes=1 << 28)
    store = LocalStore(journal)
    agent = Slow(run.fails)
    probes = [
        ProbeRequest(
            probe_id=f"p{number}",
            candidate_id="c",
            body=TASK.body,
            rollouts=2,
            seed=0,
            policy_version_at_least=0,
        )
        for number in range(run.probes)
    ]
    await store.append(appended("test", 1, VERSION, TASK, *probes, *requests(run.rollouts)))
    workers = [worker(number, run.concurrent, store, agent, folder) for number in range(run.actors)]
    running = [asyncio.create_task(each.run()) for each in workers]
    answers = topic_of(Rollout), topic_of(FailedRollout), topic_of(ProbeReport)
    async with asyncio.timeout(WAIT_S):
        seen = 0
        while len(await answered(store)) < run.rollouts + run.probes:
            seen = await store.wait(answers, seen, WAIT_S)
    await asyncio.gather(*(each.stop() for each in workers))
    await asyncio.gather(*running)
    failed = run.rollouts // run.fails if run.fails else 0
    assert Counter(await answered(store)) == {
        **{f"g/{index}": 1 for index in range(run.rollouts)},
        **{f"p{number}": 1 for number in range(run.probes)},
    }
    assert len(await store.scan(topic_of(FailedRollout))) == failed
    assert len(agent.begun) == run.rollouts + 2 * run.probes
    assert set(agent.begun.values()) == {1}
    journal.close()


async def answered(store: LocalStore) -> list[str]:
    """Return the request of each answer."""
    made = [decode_as(record, Rollout) for record in await store.scan(topic_of(Rollout))]
    failed = [
        decode_as(record, FailedRollout) for record in await store.scan(topic_of(FailedRollout))
    ]
    reports = [decode_as(record, ProbeReport) for record in await store.scan("probe_report")]
    return [
        *(f"{each.group_id}/{each.index}" for each in (*made, *failed)),
        *(each.probe_id for each in reports),
    ]


async def test_attempts_of_three_leases_are_made_once_by_two_or_three_actors(tmp_path: Path):
    runs = [
        Run(actors=2, concurrent=2, rollouts=8),
        Run(actors=2, concurrent=1, rollouts=5),
        Run(actors=3, concurrent=2, rollouts=7, probes=2),
        Run(actors=2, concurrent=3, rollouts=12, fails=4),
    ]
    async with asyncio.TaskGroup() as group:  # they mostly wait
        for number, run in enumerate(runs):
            group.create_task(carried_out(run, tmp_path / str(number)))


@pytest.mark.parametrize(("concurrent", "count"), [(2, 2), (2, 4), (1, 3), (4, 16)])
async def test_requests_that_wait_in_a_worker_are_not_taken_over(
    concurrent: int, count: int, tmp_path: Path
):
    journal = Journal.open(tmp_path / "store", map_size_bytes=1 << 28)
    store = LocalStore(journal)
    await store.append(appended("test", 1, VERSION, TASK, *requests(count)))
    agent = Slow()
    running = asyncio.create_task(worker(0, concurrent, store, agent, tmp_path).run())
    await asyncio.sleep(0.8 * ATTEMPT_S)
    begun = worker(1, 100, store, other := Slow(), tmp_path)
    second = asyncio.create_task(begun.run())
    await asyncio.sleep(0.1 * ATTEMPT_S)
    # What the first one has not taken yet is the second one's.
    assert len(agent.begun) == min(concurrent, count)
    assert len(other.begun) == max(0, count - 2 * concurrent)
    assert not agent.begun.keys() & other.begun.keys()
    for each in (running, second):
        each.cancel()
    await asyncio.gather(running, second, return_exceptions=True)
    journal.close()

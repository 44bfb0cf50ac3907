"""Tests of the simulator actor on a real local Ray."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from actors.home import Home
from actors.simulator import RemoteSimulator, SimulatorActor
from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Observed,
    Passed,
    Ready,
    Release,
    Reset,
)
from coevolve.environments.tools.interfaces import SimulatorWorker
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import read_body
from coevolve.environments.tools.wire import ToolClient
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import SimulatorError
from protocols.tasks import Task

CONFIG = RunConfig(name="test", environment={"use": "bfcl"})
ROOT = Path(__file__).parents[2]


def pid_of(status: PartStatus) -> int:
    assert status.pid is not None
    return status.pid


@pytest.fixture
def actors(cluster: None, tmp_path: Path) -> Iterator[list[Any]]:
    names = ["simulator-0", "simulator-1"]
    actors: list[Any] = [
        SimulatorActor.remote(name, CONFIG, Home(folder=str(tmp_path))) for name in names
    ]
    yield actors
    for actor in actors:
        ray.kill(actor)


@pytest.fixture
def task() -> Task:
    return load_tasks(["base"])[0]


@pytest.mark.ray
async def test_conversations_pass_through_the_actors(actors: list[Any], task: Task) -> None:
    workers: list[SimulatorWorker] = [ToolClient(RemoteSimulator(actor, 90.0)) for actor in actors]
    pool = SimulatorPool(workers)

    async def converse(session: str) -> None:
        await pool.reset(session, read_body(task.body))
        for turn in read_body(task.body).turns:
            for call in turn.reference:
                assert not (await pool.act(session, call)).failed
            assert await pool.grade(session) == Passed()
        await pool.release(session)

    await asyncio.gather(*(converse(f"s{n}") for n in range(20)))
    for number, actor in enumerate(actors):
        status: PartStatus = await actor.status.remote()
        assert status.part == f"simulator-{number}"
        assert status.mailbox == 0
        assert status.done > 10
        assert status.waits_for == "requests"
        assert await actor.cpu_s.remote() > 0.0
        assert not status.last_error


@pytest.mark.ray
async def test_trials_pass_through_the_actors(actors: list[Any], task: Task) -> None:
    pool = SimulatorPool([ToolClient(RemoteSimulator(actor, 90.0)) for actor in actors])
    reference = [turn.reference for turn in read_body(task.body).turns]
    tried = await asyncio.gather(
        *(pool.trial(f"t{n}", read_body(task.body), reference) for n in range(6))
    )
    assert all(each == tried[0] for each in tried)
    assert len(tried[0].turns) == len(reference) > 0
    assert all(turn.verdict == Passed() for turn in tried[0].turns)


@pytest.mark.ray
async def test_a_killed_actor_fails_its_sessions_and_comes_back(
    actors: list[Any], task: Task
) -> None:
    pool = SimulatorPool([ToolClient(RemoteSimulator(actor, 90.0)) for actor in actors])
    for name in ("x", "y"):
        await pool.reset(name, read_body(task.body))
        await pool.act(name, "ls()")
    status: PartStatus = await actors[0].status.remote()
    (child,) = psutil.Process(status.pid).children()
    os.kill(pid_of(status), signal.SIGKILL)
    with pytest.raises(SimulatorError):
        await pool.act("x", "ls()")
    assert not (await pool.act("y", "ls()")).failed
    _, alive = psutil.wait_procs([child], timeout=10)
    assert not alive
    again = ToolClient(RemoteSimulator(actors[0], 90.0))  # it waits for the actor
    replies = await again.execute(
        [Reset(session="x", task=read_body(task.body)), Act(session="x", text="ls()")]
    )
    assert [type(each) for each in replies] == [Ready, Observed]


@pytest.mark.ray
async def test_a_bug_of_the_simulator_is_told_and_logged(cluster: None, tmp_path: Path) -> None:
    config = RunConfig(name="test", environment={"use": "tests.own.sums:Sums"})
    actor: Any = SimulatorActor.remote("simulator-0", config, Home(folder=str(tmp_path)))
    with pytest.raises(SimulatorError, match=r"raised .*its traceback is in logs/simulator-0.json"):
        await RemoteSimulator(actor, 90.0).answer(b"no msgpack")
    ray.kill(actor)
    (line,) = (tmp_path / "logs/simulator-0.jsonl").read_text().splitlines()
    assert "msgspec" in line
    assert "sums.py" in line


@pytest.mark.ray
async def test_a_killed_child_is_replaced_by_its_actor(actors: list[Any], task: Task) -> None:
    worker = ToolClient(RemoteSimulator(actors[0], 90.0))
    reset = Reset(session="x", task=read_body(task.body))
    assert list(await worker.execute([reset])) == [Ready()]
    status: PartStatus = await actors[0].status.remote()
    (child,) = psutil.Process(status.pid).children()
    child.kill()
    lost, released = await worker.execute([Act(session="x", text="ls()"), Release(session="x")])
    assert isinstance(lost, Broken)
    assert released == Ready()
    ready, observed = await worker.execute([reset, Act(session="x", text="pwd()")])
    assert ready == Ready()
    assert isinstance(observed, Observed)
    status = await actors[0].status.remote()
    assert status.last_error


@pytest.mark.ray
async def test_an_actor_that_is_gone_or_silent_is_broken(
    cluster: None, task: Task, tmp_path: Path
) -> None:
    actor: Any = SimulatorActor.remote("simulator-9", CONFIG, Home(folder=str(tmp_path)))
    impatient = ToolClient(RemoteSimulator(actor, 2.0))
    assert list(await impatient.execute([Release(session="x")])) == [Ready()]
    status: PartStatus = await actor.status.remote()
    os.kill(pid_of(status), signal.SIGSTOP)
    (silent,) = await impatient.execute([Reset(session="x", task=read_body(task.body))])
    assert isinstance(silent, Broken)
    assert "no answer from the simulator actor within 2.0 s" in silent.reason
    ray.kill(actor)
    (gone, released) = await impatient.execute(
        [Act(session="x", text="ls()"), Release(session="x")]
    )
    assert isinstance(gone, Broken)
    assert released == Ready()


def test_importing_the_actor_imports_no_model_code() -> None:
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, actors.simulator; "
            "print(sorted({'torch', 'transformers', 'numpy'}.intersection(sys.modules)))",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "torch" not in found.stdout
    assert "transformers" not in found.stdout

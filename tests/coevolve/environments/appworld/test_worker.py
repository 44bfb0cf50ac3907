"""Sessions of the simulator: verdicts, and what a killed process does to an attempt."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from coevolve.environments.appworld.own import task_ids
from coevolve.environments.appworld.settings import AppWorldConfig
from coevolve.environments.appworld.source import own_tasks
from coevolve.environments.appworld.worker import AppWorldWorker
from coevolve.environments.sandbox.runner import Sandbox
from coevolve.environments.tools.commands import Failed, Observed, Passed
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, tool_task
from protocols.config import SimulatorConfig
from protocols.errors import SimulatorError

pytestmark = [pytest.mark.appworld, pytest.mark.timeout(300)]

COMPLETE = "apis.supervisor.complete_task()"


@pytest.fixture
async def worker(data: Path, own_sandbox: Sandbox) -> AsyncIterator[AppWorldWorker]:
    made = AppWorldWorker(
        AppWorldConfig(episodes=3), SimulatorConfig(timeout_s=30.0, memory_mb=512), lambda: data
    )
    yield made
    await made.close()


@pytest.fixture
def task(data: Path) -> ToolTask:
    (made,) = own_tasks(data, task_ids(("songs-as-a-note",), 1)[:1], "train", 4096)
    return tool_task(made)


async def test_the_reference_passes_and_other_ends_fail_with_a_reason(
    worker: AppWorldWorker, task: ToolTask
) -> None:
    pool = SimulatorPool([worker])
    reference = task.turns[0].reference
    again = await pool.trial("again", task, (("x = 1", *reference),))
    assert again.turns[0].verdict == Passed()
    assert [each.ended for each in again.turns[0].observed][-2:] == [False, True]
    idle = await pool.trial("idle", task, ((),))
    assert idle.turns[0].verdict == Failed(reason="not_completed")
    assert idle.turns[0].state == idle.initial != again.turns[0].state
    wrong = await pool.trial("wrong", task, ((COMPLETE,),))
    assert wrong.turns[0].verdict == Failed(reason="instance_state_mismatch: simple_note.Note")


async def test_sessions_are_separate_and_a_block_without_code_is_told_so(
    worker: AppWorldWorker, task: ToolTask
) -> None:
    pool = SimulatorPool([worker])
    for name in ("one", "other"):
        await pool.reset(name, task)
    assert (await pool.act("one", "x = 1")).result == "Execution successful."
    assert (await pool.act("other", "x")).failed
    assert (await pool.act("one", "")).result == "No code available to execute."
    assert (await pool.act("one", "x" * 20_001)).failed
    assert await pool.act("one", COMPLETE) == Observed(
        result="Execution successful.", failed=False, ended=True
    )
    assert isinstance(await pool.grade("one"), Failed)
    assert await pool.look("one") != await pool.look("other")
    for name in ("one", "other"):
        await pool.release(name)


async def test_killed_processes_break_their_attempt_alone_and_are_replaced(
    worker: AppWorldWorker, task: ToolTask
) -> None:
    pool = SimulatorPool([worker])
    for victim in ("interpreter", "world"):
        for name in ("one", "other"):
            await pool.reset(name, task)
            await pool.act(name, "x = 1")
        kill_nine(worker, "one", victim)
        with pytest.raises(SimulatorError, match=r"killed|ended a world|does not answer"):
            await pool.act("one", "print(apis.supervisor.show_profile())")
        assert not (await pool.act("other", "print(x)")).failed
        await pool.release("other")
    assert worker.restarts == 2
    assert worker._started
    os.kill(worker._started[0].pid, signal.SIGKILL)
    await pool.reset("third", task)
    assert not (await pool.act("third", "x = 1")).failed
    await pool.release("third")


def kill_nine(worker: AppWorldWorker, session: str, victim: str) -> None:
    """Kill one of the two processes of a session."""
    held = worker._sessions[session]
    if victim == "interpreter":
        assert held._interpreter._process
        outermost = psutil.Process(held._interpreter._process.pid)
        for process in (*outermost.children(recursive=True), outermost):
            process.kill()
        return
    assert worker._started
    first, _ = psutil.Process(worker._started[0].pid).children()
    first.kill()

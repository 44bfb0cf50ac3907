import fcntl
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from coevolve.runs import sessions
from coevolve.runs.left_behind import left_behind
from coevolve.runs.starting import LOCK_FILE, create
from protocols.config import RunConfig

HOLD = "import sys; file = open(sys.argv[2]); print(flush=True); sys.stdin.read()"


@pytest.fixture
def launcher() -> int:
    """Return the id of a process that has ended."""
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    return ended.pid


@pytest.fixture
def agent(tmp_path: Path, launcher: int) -> Generator["subprocess.Popen[bytes]"]:
    """Start a process that looks like one of Ray's, in the session of the ended launcher."""
    log = tmp_path / "ray" / f"session_2026-01-01_{launcher}" / "logs" / "agent.log"
    log.parent.mkdir(parents=True)
    log.touch()
    command = [sys.executable, "-c", HOLD, "ray::Agent", str(log)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_the_next_start_ends_what_a_killed_launcher_and_its_killed_guard_left(
    tmp_path: Path, launcher: int, agent: "subprocess.Popen[bytes]"
):
    config = RunConfig(name="run")
    directory = create(tmp_path / "run", config)
    lock = directory.path / LOCK_FILE
    lock.write_text(str(launcher))
    assert left_behind(directory) == [f"process {agent.pid} of Ray outlived its run"]
    sessions.end_last(lock)
    assert agent.wait(10.0) < 0
    assert not left_behind(directory)


def test_what_is_left_is_found_after_the_folder_of_the_session_was_removed(
    tmp_path: Path, launcher: int, agent: "subprocess.Popen[bytes]"
):
    shutil.rmtree(tmp_path / "ray")
    sessions.kill_holders(launcher)
    assert agent.wait(10.0) < 0


def test_nothing_is_ended_while_a_process_holds_the_run(
    tmp_path: Path, launcher: int, agent: "subprocess.Popen[bytes]"
):
    lock = tmp_path / LOCK_FILE
    lock.write_text(str(launcher))
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sessions.end_last(lock)
    assert agent.poll() is None

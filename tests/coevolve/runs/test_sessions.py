import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from coevolve.commands.audit import left_behind
from coevolve.runs import sessions
from coevolve.runs.starting import LOCK_FILE, create
from protocols.config import RunConfig
from protocols.errors import RunError

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
    agent.wait(10.0)
    assert agent.poll() is not None
    assert not left_behind(directory)


def test_what_is_left_is_found_after_the_folder_of_the_session_was_removed(
    tmp_path: Path, launcher: int, agent: "subprocess.Popen[bytes]"
):
    shutil.rmtree(tmp_path / "ray")
    sessions.kill_holders(launcher)
    agent.wait(10.0)
    assert agent.poll() is not None


def test_nothing_is_ended_while_a_process_holds_the_run(
    tmp_path: Path, launcher: int, agent: "subprocess.Popen[bytes]"
):
    lock = tmp_path / LOCK_FILE
    lock.write_text(str(launcher))
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sessions.end_last(lock)
    assert agent.poll() is None


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", "\u00b2".encode(), b"-1", b"9" * 10, b"9" * 20, b"9" * 5000, None]
)
def test_a_lock_that_names_no_process_leads_to_none(tmp_path: Path, content: bytes | None):
    directory = create(tmp_path / "run", RunConfig(name="run"))
    lock = directory.path / LOCK_FILE
    if content is None:
        os.mkfifo(lock)
    else:
        lock.write_bytes(content)
    assert not sessions.last_launcher(lock)
    assert not left_behind(directory)
    sessions.end_last(lock)


@pytest.mark.parametrize("pid", [-1, 0, 2**31, 10**30])
def test_an_identity_needs_the_id_of_a_process(tmp_path: Path, pid: int):
    directory = create(tmp_path / "run", RunConfig(name="run"))
    file = directory.path / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pid": pid}))
    with pytest.raises(RunError, match=r"run.json: cannot be read"):
        directory.identity()

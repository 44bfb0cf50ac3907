import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from coevolve.commands.audit import left_behind
from coevolve.history.directory import RunDirectory
from coevolve.runs import sessions
from coevolve.runs.starting import LOCK_FILE, create, is_launched
from protocols.config import RunConfig
from protocols.errors import RunError

LAUNCH = """
import sys
from pathlib import Path
from coevolve.history.directory import RunDirectory
from coevolve.runs.starting import launch_lock
with launch_lock(RunDirectory(Path(sys.argv[1]))):
    print(flush=True)
    sys.stdin.read()
"""

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


@pytest.fixture
def launched(tmp_path: Path) -> Generator[Path]:
    """Return the lock of a run that another process of this user holds."""
    directory = create(tmp_path / "run", RunConfig(name="run"))
    command = [sys.executable, "-c", LAUNCH, str(directory.path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield directory.path / LOCK_FILE
    process.kill()
    process.communicate()


def test_a_launcher_of_this_user_is_one_by_every_name_of_the_folder(tmp_path: Path, launched: Path):
    (tmp_path / "scratch").symlink_to(".")
    for lock in (launched, tmp_path / "scratch" / "run" / LOCK_FILE):
        assert is_launched(RunDirectory(lock.parent))
        assert sessions.is_launcher_of_this_user(lock)


def pid_of_another(lock: Path) -> None:
    lock.write_text(str(os.getppid()))


def no_pid(lock: Path) -> None:
    lock.write_text("")


def ended_pid(lock: Path) -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    lock.write_text(str(ended.pid))


def linked_lock(lock: Path) -> None:
    lock.rename(lock.with_name("real"))
    lock.symlink_to("real")


def named_twice(lock: Path) -> None:
    lock.rename(lock.with_name("real"))
    lock.hardlink_to(lock.with_name("real"))


def linked_identity(lock: Path) -> None:
    identity = lock.with_name("run.json")
    identity.rename(identity.with_name("real"))
    identity.symlink_to("real")


def no_identity(lock: Path) -> None:
    lock.with_name("run.json").unlink()


def copied(lock: Path) -> None:
    content = lock.read_bytes()
    lock.unlink()
    lock.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        *(pid_of_another, no_pid, ended_pid, linked_lock, named_twice, linked_identity),
        *(no_identity, copied),
    ],
    ids=lambda change: change.__name__,
)
def test_a_lock_alone_makes_no_launcher_of_this_user(
    launched: Path, change: Callable[[Path], None]
):
    change(launched)
    assert not sessions.is_launcher_of_this_user(launched)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("name", [".", "run.json", LOCK_FILE])
def test_what_belongs_to_another_user_has_no_launcher_of_this_user(launched: Path, name: str):
    os.chown(launched.parent / name, 65534, 65534)
    assert is_launched(RunDirectory(launched.parent))
    assert not sessions.is_launcher_of_this_user(launched)

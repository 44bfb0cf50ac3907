"""Real runs without a terminal: detached ones, and one whose terminal closes."""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest

from coevolve.history.directory import RunDirectory
from coevolve.runs.starting import create
from protocols.config import RunConfig
from protocols.control import RunCopied, RunFinished
from protocols.learning import StepReport
from tests.commands import ROOT, answered, called
from tests.launched import QUICKSTART, SMALL, LaunchedRun, gone

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


MAX_WITHOUT_RAY = 5
"""Maximum processes of a launcher without a cluster."""


def _take_the_terminal() -> None:
    """Make standard input the terminal of this session, and heed its end, whoever tests."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Terminal:
    """A terminal with one command in it, which is in the terminal's foreground."""

    def __init__(self, *words: str) -> None:
        self._master, slave = os.openpty()
        self._closing = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coevolve", *words],
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_the_terminal,
        )
        os.close(slave)
        self.shown = b""
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def close(self) -> None:
        """Close the terminal: the kernel sends SIGHUP to the command, a shell to its whole job."""
        if not self._closing.is_set():
            self._closing.set()
            self._reading.join()
            os.close(self._master)
            os.killpg(self.process.pid, signal.SIGHUP)

    def _read(self) -> None:
        while not self._closing.is_set():
            if select.select([self._master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.shown += os.read(self._master, 65536)


@contextlib.contextmanager
def terminal(*words: str) -> Generator[Terminal]:
    """Yield a terminal with a command; end all of the command's processes after the block."""
    opened = Terminal(*words)
    try:
        yield opened
    finally:
        processes = family(opened.process.pid)
        opened.close()
        kill(processes)
        opened.process.wait(30)


def kill(processes: list[psutil.Process]) -> None:
    """Kill those of the processes that are still alive."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        launcher = psutil.Process(pid)
        return [launcher, *launcher.children(recursive=True)]
    return []


def test_a_run_goes_on_without_a_terminal_and_from_its_copy_and_stops_when_one_closes(
    tmp_path: Path,
):
    settings = (*SMALL, "arm=static", "learner.steps=400", "cluster.stop_s=60", "name=closed")
    run = LaunchedRun(tmp_path, "closed")
    runs, copies = ("--runs", str(tmp_path)), f"file://{tmp_path}/copies"
    copied = f"store.copies={copies}"
    detached_and_stopped(run, "launch", QUICKSTART, *settings, copied, "--detach", *runs)
    before = lost(run)
    with terminal("resume", "closed", "--from", copies, *runs) as shown:
        until_step(run, len(before) + 1)
        assert run.scan(StepReport)[: len(before)] == before
        assert f"with {len(before)} steps and " in shown.shown.decode()
        processes = family(shown.process.pid)
        check_ray_is_in_other_groups(processes)
        shown.close()
        assert shown.process.wait(90) == 130
        assert not gone(processes)
    check_clean_stop(run)


def test_a_detached_run_without_a_parent_says_that_it_lost_ray(tmp_path: Path):
    run = LaunchedRun(tmp_path, "lost")
    settings = (*SMALL, "arm=static", "learner.steps=400", "name=lost")
    began = called("launch", QUICKSTART, *settings, "--detach", "--runs", str(tmp_path))
    assert began.returncode == 0, began.stderr
    processes = family(RunDirectory(run.directory).identity().pid)
    try:
        until_step(run, 2)
        next(each for each in processes if each.name() == "raylet").kill()
        assert not gone(processes)
    finally:
        kill(processes)
    said = (run.directory / "launch.log").read_text()
    assert "Ray's raylet ended, and the run's local Ray cluster with it" in said
    assert "continue with: coevolve resume lost" in said


def detached_and_stopped(run: LaunchedRun, *words: str) -> None:
    """Start a run that is detached, look into it, and stop it."""
    began = called(*words)
    assert began.returncode == 0, began.stderr
    processes = family(RunDirectory(run.directory).identity().pid)
    try:
        assert len(processes) > MAX_WITHOUT_RAY
        assert f"coevolve attach {run.directory} stop" in began.stdout
        assert f"process {processes[0].pid}, " in began.stdout
        assert os.getsid(processes[0].pid) == processes[0].pid
        os.kill(processes[0].pid, signal.SIGHUP)
        until_further_step(run)
        until_copied(run)
        assert run.told("status")["running"]
        assert run.told("stop") == {"run": "closed", "stopped": True}
        assert not gone(processes)
    finally:
        kill(processes)
    check_clean_stop(run)
    assert "stopped; continue with: coevolve resume" in (run.directory / "launch.log").read_text()


def lost(run: LaunchedRun) -> list[StepReport]:
    """Lose the run's folder, after a copy of its last step; return its steps."""
    steps = run.scan(StepReport)
    copies = run.scan(RunCopied)
    assert len(copies) > 1
    assert copies[-1].step == len(steps)
    assert f"copy {copies[-1].number} holds step {len(steps)} and" in run.attach("status").stdout
    shutil.rmtree(run.directory)
    return steps


def check_clean_stop(run: LaunchedRun) -> None:
    """Check that the run has a checkpoint of its last step, and has not finished."""
    steps = run.count(StepReport)
    assert (run.directory / "checkpoints" / f"step_{steps}").is_dir()
    assert not run.holds(RunFinished)
    assert (run.directory / "report.html").stat().st_size > 0


def check_ray_is_in_other_groups(processes: list[psutil.Process]) -> None:
    """Check that what a terminal or a shell sends to the launcher's group reaches no Ray."""
    rays = [each for each in processes if each.name() in ("gcs_server", "raylet")]
    assert len(rays) == 2
    groups = [os.getpgid(each.pid) for each in processes]
    assert groups.count(groups[0]) == 1


def until_further_step(run: LaunchedRun) -> None:
    """Wait until the run has taken one more step."""
    until_step(run, run.count(StepReport) + 1)


def until_step(run: LaunchedRun, step: int) -> None:
    """Wait until the run has taken a step."""
    until(lambda: run.count(StepReport) >= step)


def until_copied(run: LaunchedRun) -> None:
    """Wait until the run was copied once."""
    until(lambda: run.holds(RunCopied))


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_the_error_of_a_detached_start_is_the_commands_and_does_not_block_the_next(
    tmp_path: Path, quickstart: RunConfig
):
    runs = ("--runs", str(tmp_path))
    answer = called("launch", QUICKSTART, "--detach", *runs, RAY_TMPDIR=os.devnull)
    assert answer.returncode == 1
    assert answer.stderr.startswith("coevolve: Ray cannot reach or start a local cluster: ")
    assert answer.stderr.count("coevolve: ") == 1
    assert not answer.stdout
    create(tmp_path / "quickstart", quickstart)


def test_a_dry_run_has_nothing_to_detach(tmp_path: Path):
    answer = answered("launch", QUICKSTART, "--detach", "--dry-run", "--runs", str(tmp_path))
    assert answer.returncode == 2
    assert "--dry-run starts no run; leave --detach and --keep out" in answer.stderr


@pytest.mark.parametrize("time", ["", "0m", "10", "-5m", "1.5h", "ten minutes", "10d", "10m5s"])
def test_the_time_of_a_run_is_a_number_with_a_unit(tmp_path: Path, time: str):
    answer = answered("launch", QUICKSTART, "--for", time, "--runs", str(tmp_path))
    assert answer.returncode == 2
    assert f"needs a number with s, m or h, for example 10m, found {time!r}" in answer.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_is_not_both_stopped_and_kept_going(tmp_path: Path):
    answer = answered("launch", QUICKSTART, "--for", "10m", "--keep", "--runs", str(tmp_path))
    assert answer.returncode == 2
    assert "--for stops the run, and --keep continues it; leave one out" in answer.stderr

"""A real run whose terminal closes."""

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from protocols.control import RunFinished
from protocols.learning import StepReport
from tests.commands import ROOT
from tests.launched import QUICKSTART, SMALL, LaunchedRun, gone

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


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
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.shown = b""
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def close(self) -> None:
        """Close the terminal: the kernel sends SIGHUP to all processes of its foreground."""
        if not self._closing.is_set():
            self._closing.set()
            self._reading.join()
            os.close(self._master)

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
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        opened.process.wait(30)


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        launcher = psutil.Process(pid)
        return [launcher, *launcher.children(recursive=True)]
    return []


def test_a_run_stops_with_a_checkpoint_when_its_terminal_closes(tmp_path: Path):
    settings = (*SMALL, "arm=static", "learner.steps=400", "cluster.stop_s=60", "name=closed")
    run = LaunchedRun(tmp_path, "closed")
    with terminal("launch", QUICKSTART, *settings, "--runs", str(tmp_path)) as shown:
        until_step(run, shown)
        processes = family(shown.process.pid)
        assert len(processes) > 5
        shown.close()
        assert shown.process.wait(90) == 0
        assert not gone(processes)
    steps = run.count(StepReport)
    assert (run.directory / "checkpoints" / f"step_{steps}").is_dir()
    assert not run.holds(RunFinished)
    assert (run.directory / "report.html").stat().st_size > 0


def until_step(run: LaunchedRun, shown: Terminal) -> None:
    """Wait until the journal holds a step."""
    for _ in range(1200):
        if run.holds(StepReport):
            return
        assert shown.process.poll() is None, shown.shown.decode()
        threading.Event().wait(0.1)
    raise AssertionError(shown.shown.decode())

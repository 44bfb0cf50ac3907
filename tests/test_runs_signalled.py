"""Real runs whose whole process group is signalled, and one whose launcher is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from protocols.control import RunFinished
from protocols.learning import StepReport
from tests.commands import ROOT
from tests.launched import SMALL, LaunchedRun, gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

SETTINGS = (*SMALL, "arm=static", "learner.steps=400", "cluster.stop_s=60")

NOTICED_S = 2.0
"""Seconds within which `attach watch` ends after its run's launcher."""

STEPS_SHOWN = 3
"""The first of them may have been taken before the watch began."""


def test_a_signal_to_the_whole_group_stops_a_run_as_cleanly_as_an_interrupt(tmp_path: Path):
    with launched(tmp_path, "grouped", *SETTINGS) as run:
        stop_group(run, signal.SIGTERM, signal.SIGTERM)  # `timeout` sends two
        run.start("--resume")
        stop_group(run, signal.SIGINT)
        run.start("--resume")
        check_watch_notices_a_killed_launcher(run)


def stop_group(run: LaunchedRun, *signals: signal.Signals) -> None:
    """Signal the launcher's process group; check that the run ends cleanly, and all of Ray."""
    until_further_step(run)
    processes = run.processes()
    assert run.process is not None
    for number in signals:
        os.killpg(run.process.pid, number)
    assert run.wait(90) == 130
    assert not gone(processes)
    steps = run.count(StepReport)
    assert (run.directory / "checkpoints" / f"step_{steps}").is_dir()
    assert (run.directory / "report.html").stat().st_size > 0
    assert "continue with: coevolve resume" in run.said()
    assert not run.holds(RunFinished)


def check_watch_notices_a_killed_launcher(run: LaunchedRun) -> None:
    """Check that `attach watch` ends soon after the launcher, with the words of `attach status`."""
    until_further_step(run)
    shown = run.directory.parent / "watched"
    with (
        shown.open("w") as output,
        subprocess.Popen(
            [sys.executable, "-m", "coevolve", "attach", str(run.directory), "watch"],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        ) as watching,
    ):
        run.until(
            "steps that are watched",
            lambda: shown.read_text().count('"event": "step"') > STEPS_SHOWN,
        )
        assert run.process is not None
        psutil.Process(run.process.pid).kill()
        killed = time.monotonic()
        _, said = watching.communicate(timeout=60)
        took_s = time.monotonic() - killed
    assert watching.returncode == 0, said
    told = run.attach("status").stdout.splitlines()[0]
    assert "not running" in told
    assert said.splitlines()[-1] == told
    assert took_s < NOTICED_S


def until_further_step(run: LaunchedRun) -> None:
    """Wait until the run has taken one more step."""
    step = run.count(StepReport)
    run.until("a further step", lambda: run.count(StepReport) > step)

"""Real runs whose whole process group is signalled, and one whose time is over."""

import os
import signal
from pathlib import Path

import pytest

from protocols.control import RunCopied, RunFinished
from protocols.learning import StepReport
from tests.launched import SMALL, LaunchedRun, gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

SETTINGS = (*SMALL, "arm=static", "learner.steps=400", "cluster.stop_s=60")


def test_a_signal_to_its_group_or_the_end_of_its_time_stops_a_run_as_cleanly_as_an_interrupt(
    tmp_path: Path,
):
    copied = f"store.copies=file://{tmp_path}/copies"
    with launched(tmp_path, "grouped", *SETTINGS, copied) as run:
        stop_group(run, signal.SIGTERM, signal.SIGTERM)  # `timeout` sends two
        run.start("--resume")
        stop_group(run, signal.SIGINT)
        run.start("--resume", "--for", "40s")
        assert run.wait(300) == 0, run.said()
        check_stopped(run)
    assert run.scan(RunCopied)[-1].step == run.count(StepReport)


def stop_group(run: LaunchedRun, *signals: signal.Signals) -> None:
    """Signal the launcher's process group; check that the run ends cleanly, and all of Ray."""
    until_further_step(run)
    processes = run.processes()
    assert run.process is not None
    for number in signals:
        os.killpg(run.process.pid, number)
    assert run.wait(90) == 130
    assert not gone(processes)
    check_stopped(run)
    assert "continue with: coevolve resume" in run.said()


def check_stopped(run: LaunchedRun) -> None:
    """Check that the run has a checkpoint of its last step and a report, and has not finished."""
    steps = run.count(StepReport)
    assert (run.directory / "checkpoints" / f"step_{steps}").is_dir()
    assert (run.directory / "report.html").stat().st_size > 0
    assert not run.holds(RunFinished)


def until_further_step(run: LaunchedRun) -> None:
    """Wait until the run has taken one more step."""
    step = run.count(StepReport)
    run.until("a further step", lambda: run.count(StepReport) > step)

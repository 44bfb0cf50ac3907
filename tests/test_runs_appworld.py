"""A real run on own tasks in AppWorld's apps, with processes killed by kill -9, and resumed."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from protocols.learning import Evaluation, StepReport
from protocols.rollouts import FailedRollout, Rollout
from tests.books import check_books
from tests.launched import LaunchedRun, gone, launched

pytestmark = [
    pytest.mark.ray,
    pytest.mark.appworld,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("appworld_engine"),
]

RUN_FILE = "configs/appworld_tiny.yaml"
STEPS = 30
"""By then the policy has learned to end its messages, so that its code is run."""


def test_a_run_trains_and_continues_when_engine_interpreter_and_everything_is_killed(
    tmp_path: Path,
) -> None:
    with launched(tmp_path, "killed", f"learner.steps={STEPS}", run_file=RUN_FILE) as run:
        for program in ("server.py", "bwrap"):
            run.until(f"a process {program}", lambda: bool(processes(run, program)))  # noqa: B023
            before = run.count(Rollout)
            for process in processes(run, program):
                process.kill()
            run.until("further rollouts", lambda: run.count(Rollout) > before)  # noqa: B023
        everything = run.processes()
        assert run.process
        os.kill(run.process.pid, signal.SIGKILL)
        assert not gone(everything, 60)
        run.start("--resume")
        assert run.wait(600) == 0, run.said()
        messages = [message for _, message in run.journal()]
    check_books(messages, STEPS)
    rollouts = [each for each in messages if isinstance(each, Rollout)]
    # Whatever was killed has earned nothing.
    assert {each.reward for each in rollouts if each.ended != "finished"} == {0.0}
    assert any(each.actions for each in rollouts)
    failed = [each for each in messages if isinstance(each, FailedRollout)]
    reasons = ("killed", "engine", "actor")
    assert all(any(word in each.reason for word in reasons) for each in failed), failed
    reports = [each for each in messages if isinstance(each, StepReport)]
    assert [each.step for each in reports] == list(range(1, STEPS + 1))
    assert any(isinstance(each, Evaluation) for each in messages)


def processes(run: LaunchedRun, program: str) -> list[psutil.Process]:
    """Return the run's processes of a program."""
    found: list[psutil.Process] = []
    for process in run.processes():
        try:
            if any(program in word for word in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found

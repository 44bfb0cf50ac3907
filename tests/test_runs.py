"""Real runs: a local Ray cluster, a journal on disk, the shipped policy, kill -9."""

import os
import signal
from pathlib import Path

import pytest

from protocols.learning import PolicyVersion
from protocols.rollouts import Rollout, RolloutRequest
from tests.books import check_books
from tests.launched import SMALL, LaunchedRun, gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

TOGETHER = (
    ("store",),
    ("curriculum", "signals"),
    ("synthesizer", "validator", "evaluator"),
    ("rollout-0", "simulator-0"),
    ("simulator-1", "learner"),
)
"""Parts that are killed at the same moment: every part of the run once."""


def test_a_run_continues_when_any_actors_are_killed(tmp_path: Path):
    steps = 25
    with launched(tmp_path, "killed", *SMALL, f"learner.steps={steps}") as run:
        rolls_out_without_a_learner(run)
        run.until("the first step", lambda: run.step() >= 1)
        victims = run.pids()
        assert set(victims) == {name for names in TOGETHER for name in names}
        for names in TOGETHER:
            before = run.step()
            for name in names:
                os.kill(victims[name], signal.SIGKILL)
            run.until(f"a step after {names} were killed", lambda: run.step() > before)  # noqa: B023
        assert run.wait() == 0, run.said()
    check_books([message for _, message in run.journal()], steps)
    restarted = {event["part"] for event in run.events("part_restarted")}
    assert {name for names in TOGETHER for name in names} - {"store"} <= restarted


def rolls_out_without_a_learner(run: LaunchedRun) -> None:
    """Check that all requested rollouts are made while the learner is dead."""
    run.until("version 0", lambda: run.holds(PolicyVersion))
    learner = run.process_of("LearnerShell")
    learner.suspend()
    run.until("a rollout", lambda: run.holds(Rollout))
    asked = run.count(RolloutRequest)
    assert asked == 8 * 4
    run.until("all of them", lambda: run.count(Rollout) == asked)
    learner.kill()


def alarms(run: LaunchedRun, after: int = 0) -> list[str]:
    """Return every line of every alarm after the first ``after``."""
    return [line for event in run.events("stalled")[after:] for line in event["waiting"]]


@pytest.mark.exhaustive
def test_a_stuck_run_reports_what_parts_wait_for_and_a_second_interrupt_stops_it_at_once(
    tmp_path: Path,
):
    plain = (*SMALL, "arm=static", "learner.steps=200", "watchdog.quiet_s=3")
    with launched(tmp_path, "stalled", *plain) as run:
        run.until("the first step", lambda: run.step() >= 1)
        before = len(run.events("stalled"))
        pids = run.pids()
        os.kill(pids["rollout-0"], signal.SIGSTOP)
        silent = "rollout-0 does not answer"
        run.until("the alarm", lambda: any(silent in line for line in alarms(run, before)))
        said = alarms(run, before)
        step = run.step()
        os.kill(pids["rollout-0"], signal.SIGCONT)
        run.until("the next step", lambda: run.step() > step)
        processes = run.processes()
        os.kill(pids["learner"], signal.SIGSTOP)
        run.signal(signal.SIGINT)
        run.until(
            "the clean stop to begin", lambda: "stopping: finishing the current step" in run.said()
        )
        run.signal(signal.SIGINT)
        assert run.wait(20) == 130
        assert not gone(processes)
    assert any(line.startswith("learner waits for complete groups") for line in said)
    assert any(line.startswith("curriculum waits for the learner") for line in said)

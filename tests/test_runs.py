"""Real runs: a local Ray cluster, a journal on disk, the shipped policy, kill -9."""

import collections
import json
import os
import signal
import time
from pathlib import Path

import pytest

from coevolve.journal.codec import TOPICS, decode
from protocols.journal import Message
from protocols.learning import Evaluation, GroupDiscarded, PolicyVersion, StepReport
from protocols.rollouts import Rollout, RolloutRequest, VoidRollout
from tests.launched import LaunchedRun, gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

SMALL = (
    "learner.groups_per_step=4",
    "rollout.group_size=4",
    "tasks.held_out=24",
    "tasks.in_flight_groups=8",
    "simulator.workers=2",
    "learner.checkpoint_every=3",
    "learner.replay_per_step=4",
)


def journal(run: LaunchedRun) -> list[tuple[int, Message]]:
    """Return every record of a run, in order, and check that no sequence is missing."""
    with run.reader().snapshot() as state:
        newest = max(state.newest(topic) for topic in TOPICS)
        return [(record.sequence, decode(record)) for record in state.read(range(1, newest + 1))]


def check_books(records: list[tuple[int, Message]], steps: int) -> None:
    """Every request answered once, every group consumed once, every step taken once."""
    messages = [message for _, message in records]
    requests = [(m.group_id, m.index) for m in messages if isinstance(m, RolloutRequest)]
    answers = collections.Counter(
        (m.group_id, m.index) for m in messages if isinstance(m, Rollout | VoidRollout)
    )
    reports = [m for m in messages if isinstance(m, StepReport)]
    discards = [m for m in messages if isinstance(m, GroupDiscarded)]
    trained = [group.group_id for report in reports for group in report.groups]
    assert len(set(requests)) == len(requests)
    assert answers == collections.Counter(requests)
    assert [report.step for report in reports] == list(range(1, steps + 1))
    consumed = collections.Counter(trained + [discard.group_id for discard in discards])
    assert consumed == collections.Counter({group: 1 for group, _ in requests})


def test_a_run_goes_on_whichever_actor_is_killed(tmp_path: Path):
    steps = 40
    with launched(tmp_path, "killed", *SMALL, f"learner.steps={steps}") as run:
        run.until("the first step", lambda: run.step() >= 1)
        victims = run.pids()
        assert set(victims) == {
            "store",
            "curriculum",
            "rollout-0",
            "simulator-0",
            "simulator-1",
            "learner",
            "evaluator",
        }
        for name, pid in victims.items():
            before = run.step()
            os.kill(pid, signal.SIGKILL)
            run.until(f"a step after {name} was killed", lambda: run.step() > before)  # noqa: B023
        assert run.wait() == 0, run.said()
    check_books(journal(run), steps)
    restarted = {event["part"] for event in run.events("part_restarted")}
    assert {"curriculum", "rollout-0", "learner", "evaluator"} <= restarted


def test_every_rollout_asked_for_is_made_while_the_learner_is_dead(tmp_path: Path):
    steps = 6
    with launched(tmp_path, "headless", *SMALL, f"learner.steps={steps}") as run:
        run.until("version 0", lambda: run.holds(PolicyVersion))
        learner = run.process_of("LearnerShell")
        learner.suspend()
        run.until("a rollout", lambda: run.holds(Rollout))
        asked = [m for _, m in journal(run) if isinstance(m, RolloutRequest)]
        assert len(asked) == 8 * 4
        run.until("all of them", lambda: run.count(Rollout) == len(asked))
        learner.kill()
        assert run.wait() == 0, run.said()
    check_books(journal(run), steps)


def test_a_run_that_was_killed_whole_resumes_with_the_same_books(tmp_path: Path):
    with launched(tmp_path, "resumed", *SMALL, "learner.steps=10") as run:
        run.until("four steps", lambda: run.step() >= 4)
        processes = run.processes()
        run.signal(signal.SIGKILL)
        assert not gone(processes)
        before = journal(run)
        run.start("--resume")
        assert run.wait() == 0, run.said()
    after = journal(run)
    assert after[: len(before)] == before
    check_books(after, 10)
    versions = {m.version for _, m in after if isinstance(m, Evaluation)}
    assert {0, 10} <= versions
    metrics = [json.loads(line) for line in (run.directory / "metrics.jsonl").open()]
    steps = [m["step"] for m in metrics if "critic/score/mean" in m]
    assert steps == list(range(1, 11))


def test_an_interrupt_stops_cleanly_with_a_checkpoint_and_leaves_no_process(tmp_path: Path):
    with launched(tmp_path, "interrupted", *SMALL, "learner.steps=200") as run:
        run.until("two steps", lambda: run.step() >= 2)
        processes = run.processes()
        run.signal(signal.SIGINT)
        assert run.wait() == 0, run.said()
        assert not gone(processes)
    assert "go on with --resume" in run.said()
    taken = max(m.step for _, m in journal(run) if isinstance(m, StepReport))
    assert (run.directory / "checkpoints" / f"step_{taken}").is_dir()


def test_a_second_interrupt_stops_at_once(tmp_path: Path):
    with launched(tmp_path, "twice", *SMALL, "learner.steps=200") as run:
        run.until("the first step", lambda: run.step() >= 1)
        processes = run.processes()
        os.kill(run.pids()["learner"], signal.SIGSTOP)
        run.signal(signal.SIGINT)
        time.sleep(1)
        run.signal(signal.SIGINT)
        assert run.wait(20) == 130
        assert not gone(processes)


def test_attach_shows_copies_and_stops_a_live_run(tmp_path: Path):
    with launched(tmp_path, "attached", *SMALL, "learner.steps=200") as run:
        run.until("two steps", lambda: run.step() >= 2)
        shown = run.attach("status")
        assert "learner" in shown.stdout
        assert "newest sequence" in shown.stdout
        tail = run.attach("tail", "step_report", "--json", "-n", "2")
        lines = [json.loads(line) for line in tail.stdout.splitlines()]
        assert [line["type"] for line in lines] == ["step_report"] * 2
        copied = run.attach("checkpoint", "--json", "--to", str(tmp_path / "copy"))
        assert copied.returncode == 0, copied.stderr
        assert json.loads(copied.stdout)["size_bytes"] > 0
        stopped = run.attach("stop")
        assert stopped.returncode == 0, stopped.stderr
        assert run.wait() == 0
        dead = run.attach("status")
        assert "does not run; what follows is from its journal" in dead.stdout
        refused = run.attach("checkpoint")
        assert refused.returncode == 1
        assert "does not run; go on with" in refused.stderr


def alarms(run: LaunchedRun) -> list[str]:
    """Return every line of every alarm so far."""
    return [line for event in run.events("stalled") for line in event["waiting"]]


def test_when_nothing_moves_the_run_says_who_waits_for_whom(tmp_path: Path):
    with launched(tmp_path, "stalled", *SMALL, "learner.steps=200", "watchdog.quiet_s=3") as run:
        run.until("the first step", lambda: run.step() >= 1)
        os.kill(run.pids()["rollout-0"], signal.SIGSTOP)
        silent = "rollout-0 does not answer"
        run.until("the alarm", lambda: any(silent in line for line in alarms(run)))
        said = alarms(run)
    assert any(line.startswith("learner waits for complete groups") for line in said)
    assert any(line.startswith("curriculum waits for the learner") for line in said)

"""Real runs: a local Ray cluster, a journal on disk, the shipped policy, kill -9."""

import collections
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.journal.codec import TOPICS, decode
from coevolve.run.drive import PAUSED
from protocols.control import RunContinued
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    Parked,
    Signal,
    SignalSettled,
    SwapRefused,
    SynthesizerSwapped,
    Visit,
)
from protocols.journal import Message
from protocols.learning import Evaluation, GroupDiscarded, PolicyVersion, StepReport
from protocols.rollouts import Rollout, RolloutRequest, VoidRollout
from protocols.tasks import Task
from tests.chat_server import ChatServer, serving
from tests.launched import LaunchedRun, gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

SMALL = (
    "learner.groups_per_step=4",
    "rollout.group_size=4",
    "tasks.held_out=24",
    "tasks.in_flight_groups=8",
    "simulator.workers=2",
    "learner.checkpoint_every=3",
    "learner.replay_per_step=4",
)

SCRIPTED = "scripted-model"
"""What `tests.chat_server` is called where it synthesizes."""

RESTING = "rollout requests from the curriculum"
"""What a rollout part without conversations waits for."""

PLAIN = (*SMALL, "arm=static")
"""For what has nothing to do with synthesis: one model less to load."""


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
    check_evolution(messages)


def check_evolution(messages: Sequence[Message]) -> None:
    """Each group visited at most once, each signal settled and each candidate judged likewise."""
    visits = [m.group_id for m in messages if isinstance(m, Visit)]
    signals = [m.signal_id for m in messages if isinstance(m, Signal)]
    settled = [m.signal_id for m in messages if isinstance(m, SignalSettled)]
    candidates = [m.candidate_id for m in messages if isinstance(m, Candidate)]
    judged = [
        m.candidate_id
        for m in messages
        if isinstance(m, CandidateVerdict) and not isinstance(m.outcome, Parked)
    ]
    made = [m.task_id for m in messages if isinstance(m, Task)]
    for ids in (visits, signals, settled, candidates, judged, made):
        assert len(set(ids)) == len(ids)
    assert set(settled) <= set(signals)
    assert set(judged) <= set(candidates)


def test_a_run_goes_on_whichever_actor_is_killed(tmp_path: Path):
    steps = 120
    with launched(tmp_path, "killed", *SMALL, f"learner.steps={steps}") as run:
        run.until("the first step", lambda: run.step() >= 1)
        victims = run.pids()
        assert set(victims) == {
            "store",
            "curriculum",
            "signals",
            "synthesizer",
            "validator",
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
    assert set(victims) - {"store", "simulator-0", "simulator-1"} <= restarted


def test_every_rollout_asked_for_is_made_while_the_learner_is_dead(tmp_path: Path):
    steps = 6
    with launched(tmp_path, "headless", *PLAIN, f"learner.steps={steps}") as run:
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


def test_a_second_interrupt_stops_at_once(tmp_path: Path):
    with launched(tmp_path, "twice", *PLAIN, "learner.steps=200") as run:
        run.until("the first step", lambda: run.step() >= 1)
        processes = run.processes()
        os.kill(run.pids()["learner"], signal.SIGSTOP)
        run.signal(signal.SIGINT)
        time.sleep(1)
        run.signal(signal.SIGINT)
        assert run.wait(20) == 130
        assert not gone(processes)


def test_attach_shows_copies_pauses_and_stops_a_live_run_which_can_go_on(tmp_path: Path):
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
        assert told(run, "pause")["paused"]
        stopped = run.attach("stop")
        assert stopped.returncode == 0, stopped.stderr
        assert run.wait() == 0
        dead = run.attach("status")
        assert "does not run; what follows is from its journal" in dead.stdout
        refused = run.attach("checkpoint")
        assert refused.returncode == 1
        assert "does not run; go on with" in refused.stderr
        steps = max(m.step for _, m in journal(run) if isinstance(m, StepReport)) + 2
        before = len(run.events("launch"))
        run.start("--resume", f"learner.steps={steps}")
        run.until("the pause to be told of", lambda: PAUSED in said_since(run, before))
        assert not told(run, "resume")["already"]
        assert run.wait() == 0, run.said()
    check_books(journal(run), steps)


def to_endpoint(base_url: str, model: str = SCRIPTED) -> tuple[str, ...]:
    """Return the words of attach that let a model behind an endpoint synthesize."""
    named = ("swap-synthesizer", "--base-url", base_url, "--model", model)
    return (*named, "--tries", "1", "--timeout-s", "20")


def swapped_in(run: LaunchedRun, server: ChatServer) -> None:
    """Let ``server`` synthesize, and wait until one of its candidates is there."""
    run.until("the first step", lambda: run.step() >= 1)
    swap = run.attach(*to_endpoint(server.base_url))
    assert swap.returncode == 0, swap.stderr
    assert swap.stdout.endswith(f"{SCRIPTED} synthesizes from the next signal on\n")
    run.until("a candidate of the endpoint", lambda: makers(run)[-1:] == [SCRIPTED])


def makers(run: LaunchedRun, after: int = 0) -> list[str]:
    """Return who made each candidate beyond a sequence, oldest first."""
    with run.reader().snapshot() as state:
        records = [decode(record) for record in state.scan("candidate", after=after, limit=10**6)]
    return [message.synthesizer for message in records if isinstance(message, Candidate)]


def last_sequence(run: LaunchedRun) -> int:
    """Return the newest sequence of a run's journal."""
    with run.reader().snapshot() as state:
        return max(state.newest(topic) for topic in TOPICS)


def told(run: LaunchedRun, *command: str) -> dict[str, Any]:
    """Return what attach answers to a program."""
    answer = run.attach(*command, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def check_views(run: LaunchedRun, *, running: bool) -> None:
    """What attach tells of signals, tasks and lineage fits together, on a live or dead run.

    A live one may admit what was under probe between one answer and the next.
    """
    status = told(run, "status")
    signals = told(run, "signals", "-n", "100000")
    tasks = told(run, "tasks", "--origin", "synthesized", "-n", "100000")
    assert [each["running"] for each in (status, signals, tasks)] == [running] * 3
    assert len(signals["signals"]) == signals["count"] > 0
    assert sum(sum(kind.values()) for kind in status["signals"].values()) <= signals["count"]
    admitted = sum(each["admitted"] for each in status["synthesizers"])
    made = {task for each in signals["signals"] for task in each["tasks"]}
    shown = {each["task_id"] for each in tasks["tasks"]}
    assert 0 < admitted <= tasks["count"]
    assert made <= shown
    if not running:
        assert (admitted, made) == (tasks["count"], shown)
    task_id = max(tasks["tasks"], key=lambda each: len(each["visits"]))["task_id"]
    lineage = told(run, "lineage", task_id)["lineage"]
    candidate = lineage["candidate"]
    assert candidate["signal_id"] == lineage["signal"]["signal"]["signal_id"]
    assert candidate["exploration_id"] == lineage["exploration"]["exploration_id"]
    assert lineage["exploration"]["reflection"]["summary"]
    assert lineage["verdicts"][-1]["outcome"]["task_id"] == task_id
    shown = run.attach("lineage", task_id).stdout
    made_of = f"candidate {candidate['candidate_id']}"
    chapters = ("signal ", "reflection of ", made_of, "probe at ", "verdict at ", f"task {task_id}")
    places = [shown.index(chapter) for chapter in chapters]
    assert places == sorted(places)


def test_a_run_is_swapped_paused_and_looked_into_while_it_goes_on(tmp_path: Path):
    steps = 110
    small = (*SMALL, "synthesizer.rounds=1", f"learner.steps={steps}")
    with serving() as server, launched(tmp_path, "steered", *small) as run:
        swapped_in(run, server)
        refused = run.attach(*to_endpoint("http://127.0.0.1:9/v1", "dead-model"))
        assert refused.returncode == 1
        assert "the synthesizer stays as it is, the new one is refused" in refused.stderr
        assert "see that the server runs" in refused.stderr
        refused_at = last_sequence(run)
        run.until("the old one to go on", lambda: SCRIPTED in makers(run, refused_at))

        assert told(run, "pause") == {"run": "steered", "paused": True, "already": False}
        run.until(
            "what is under way to end",
            lambda: run.count(RolloutRequest) == run.count(Rollout) + run.count(VoidRollout),
        )
        quiet_from = last_sequence(run)
        run.until("a task of the endpoint's", lambda: made_by(run, SCRIPTED) > 0)
        check_views(run, running=True)
        assert told(run, "status")["paused"]
        run.until("the policy to rest", lambda: waits(run, "rollout-0") == RESTING)
        back = run.attach("swap-synthesizer", "--policy")
        assert back.returncode == 0, back.stderr
        assert not told(run, "resume")["already"]
        assert run.wait() == 0, run.said()
        check_views(run, running=False)
    assert (run.directory / "report.html").stat().st_size > 0
    records = journal(run)
    check_books(records, steps)
    sequences = {type(message): sequence for sequence, message in records}
    quiet = range(quiet_from, sequences[RunContinued])
    asked = [number for number, message in records if isinstance(message, RolloutRequest)]
    assert not set(asked) & set(quiet)
    assert asked[-1] > sequences[RunContinued]
    assert sequences[SwapRefused] <= refused_at
    assert makers(run)[-1] == "policy@0"


def waits(run: LaunchedRun, part: str) -> str:
    """Return what a part waits for."""
    parts = told(run, "status")["parts"]
    return next(each["waits_for"] for each in parts if each["part"] == part)


def made_by(run: LaunchedRun, synthesizer: str) -> int:
    """Return how many candidates of a synthesizer became tasks."""
    tallies = told(run, "status")["synthesizers"]
    return sum(each["admitted"] for each in tallies if each["synthesizer"] == synthesizer)


def test_a_run_that_was_killed_whole_resumes_with_its_books_and_the_synthesizer_swapped_in(
    tmp_path: Path,
):
    small = (*SMALL, "synthesizer.rounds=1", "learner.steps=400")
    with serving() as server, launched(tmp_path, "kept", *small) as run:
        swapped_in(run, server)
        processes = run.processes()
        run.signal(signal.SIGKILL)
        assert not gone(processes)
        before = journal(run)
        steps = max(m.step for _, m in before if isinstance(m, StepReport)) + 30
        asked = len(server.requests)
        run.start("--resume", f"learner.steps={steps}")
        assert run.wait() == 0, run.said()
        assert len(server.requests) > asked
    after = journal(run)
    assert after[: len(before)] == before
    check_books(after, steps)
    assert [m.synthesizer for _, m in after if isinstance(m, SynthesizerSwapped)] == [SCRIPTED]
    assert set(makers(run, before[-1][0])) == {SCRIPTED}
    assert {0, steps} <= {m.version for _, m in after if isinstance(m, Evaluation)}
    metrics = [json.loads(line) for line in (run.directory / "metrics.jsonl").open()]
    taken = [line["step"] for line in metrics if "critic/score/mean" in line]
    assert taken == list(range(1, steps + 1))


def said_since(run: LaunchedRun, events: int) -> list[str]:
    """Return what the launcher said beyond its first ``events`` lines."""
    return [event["text"] for event in run.events("launch")[events:]]


def alarms(run: LaunchedRun, after: int = 0) -> list[str]:
    """Return every line of every alarm beyond the first ``after``."""
    return [line for event in run.events("stalled")[after:] for line in event["waiting"]]


def test_a_stuck_run_says_who_waits_for_whom_and_an_interrupted_one_leaves_a_checkpoint(
    tmp_path: Path,
):
    with launched(tmp_path, "stalled", *PLAIN, "learner.steps=200", "watchdog.quiet_s=3") as run:
        run.until("the first step", lambda: run.step() >= 1)
        before = len(run.events("stalled"))
        rollout = run.pids()["rollout-0"]
        os.kill(rollout, signal.SIGSTOP)
        silent = "rollout-0 does not answer"
        run.until("the alarm", lambda: any(silent in line for line in alarms(run, before)))
        said = alarms(run, before)
        step = run.step()
        os.kill(rollout, signal.SIGCONT)
        run.until("the next step", lambda: run.step() > step)
        processes = run.processes()
        run.signal(signal.SIGINT)
        assert run.wait() == 0, run.said()
        assert not gone(processes)
    assert any(line.startswith("learner waits for complete groups") for line in said)
    assert any(line.startswith("curriculum waits for the learner") for line in said)
    assert "go on with --resume" in run.said()
    taken = max(m.step for _, m in journal(run) if isinstance(m, StepReport))
    assert (run.directory / "checkpoints" / f"step_{taken}").is_dir()

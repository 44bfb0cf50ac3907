"""A real run that is steered, scaled, killed completely and stopped, and continues each time."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from coevolve.followers.built_in.tensorboard import point_numbers
from coevolve.followers.said import folder_of
from coevolve.history.passing import PAUSED
from protocols.control import RolloutScaled, RunContinued
from protocols.evolution import (
    Admitted,
    Candidate,
    CandidateVerdict,
    SwapRefused,
    SynthesizerSwapped,
)
from protocols.journal import Message
from protocols.learning import Evaluation, StepReport
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from tests.books import check_books
from tests.chat_server import ChatServer, serving
from tests.commands import ROOT, called
from tests.launched import SMALL, LaunchedRun, gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

SCRIPTED = "scripted-model"
"""Name of `tests.chat_server` as a synthesizer."""

RESTING = "rollout requests from the curriculum"
"""The state of a rollout part without conversations."""

ENGINES = ("rollout-0", "rollout-1")

NOTICED_S = 2.0
"""Seconds within which `attach watch` ends after its run's launcher."""

STEPS_SHOWN = 3
"""The first of them may have been taken before the watch began."""

FURTHER_STEPS = 15
"""Enough steps for the policy to synthesize again."""


def test_a_run_that_is_swapped_killed_paused_and_stopped_continues_each_time(tmp_path: Path):
    small = (*SMALL, "synthesizer.rounds=1", "learner.steps=400", "trackers.use=[tensorboard]")
    with serving() as server, launched(tmp_path, "steered", *small) as run:
        refused_at = swapped(run, server)
        scaled(run, 2)
        before = killed_whole(run)
        asked = len(server.requests)
        run.start("--resume")
        run.until("the engines of the resumed run", lambda: set(ENGINES) <= set(working(run)))
        scaled(run, 1)
        quiet_from = paused_and_looked_into(run)
        assert len(server.requests) > asked
        assert set(makers(run, before[-1][0])) == {SCRIPTED}
        stopped(run)
        steps = resumed_to_the_end(run)
        check_views(run, running=False)
    assert (run.directory / "report.html").stat().st_size > 0
    records = run.journal()
    assert records[: len(before)] == before
    messages = [message for _, message in records]
    check_books(messages, steps)
    check_swaps(run, messages)
    scales = [each for each in messages if isinstance(each, RolloutScaled)]
    changes = [("start", 1), ("request", 2), ("start", 2), ("request", 1), ("start", 1)]
    assert [(each.cause, each.actors) for each in scales] == changes
    assert {0, steps} <= {each.version for each in messages if isinstance(each, Evaluation)}
    sequences = {type(message): sequence for sequence, message in records}
    assert sequences[SwapRefused] <= refused_at
    requests = [sequence for sequence, each in records if isinstance(each, RolloutRequest)]
    assert not set(requests) & set(range(quiet_from, sequences[RunContinued]))
    assert requests[-1] > sequences[RunContinued]
    metrics = [json.loads(line) for line in (run.directory / "metrics.jsonl").open()]
    taken = [line["step"] for line in metrics if "actor/lr" in line]
    assert taken == list(range(1, steps + 1))
    tracked = point_numbers(folder_of(run.directory, "tensorboard"))
    assert list(tracked) == list(range(1, len(metrics) + 1))


def to_endpoint(base_url: str, model: str = SCRIPTED) -> tuple[str, ...]:
    """Return the arguments of attach that make an endpoint's model the synthesizer."""
    named = ("swap-synthesizer", "--base-url", base_url, "--model", model)
    return (*named, "--tries", "1", "--timeout-s", "20")


def swapped(run: LaunchedRun, server: ChatServer) -> int:
    """Swap to ``server``, then to a model that does not answer, so that the old one stays.

    Return a sequence number after the refusal.
    """
    run.until("the first step", lambda: run.step() >= 1)
    swap = run.attach(*to_endpoint(server.base_url))
    assert swap.returncode == 0, swap.stderr
    assert swap.stdout.endswith(f"{SCRIPTED} synthesizes from the next signal on\n")
    run.until("a candidate of the endpoint", lambda: makers(run)[-1:] == [SCRIPTED])
    refused = run.attach(*to_endpoint("http://127.0.0.1:9/v1", "dead-model"))
    assert refused.returncode == 1
    assert "the synthesizer stays as it is, the new one is refused" in refused.stderr
    assert "check that the server runs" in refused.stderr
    refused_at = run.newest()
    run.until("the old one to go on", lambda: SCRIPTED in makers(run, refused_at))
    return refused_at


def scaled(run: LaunchedRun, engines: int) -> None:
    """Change the number of rollout engines; check that the run trains on with exactly these."""
    answer = run.told("scale", f"rollout={engines}")
    assert tuple(answer["engines"]) == ENGINES[:engines]
    step = run.step()
    run.until("rollouts of each engine", lambda: working(run) == ENGINES[:engines])
    run.until("further steps", lambda: run.step() > step + 1)


def working(run: LaunchedRun) -> tuple[str, ...]:
    """Return the rollout engines that have made a rollout since they started."""
    parts = run.told("status")["parts"]
    return tuple(each["part"] for each in parts if each["part"] in ENGINES and each["done"])


def makers(run: LaunchedRun, after: int = 0) -> list[str]:
    """Return the synthesizer of each candidate after a sequence number, oldest first."""
    return [each.synthesizer for each in run.scan(Candidate, after)]


def killed_whole(run: LaunchedRun) -> list[tuple[int, Message]]:
    """Kill the launcher, which ends the whole run; return the journal's records."""
    processes = run.processes()
    check_watch_notices_a_killed_launcher(run)
    assert not gone(processes)
    return run.journal()


def check_watch_notices_a_killed_launcher(run: LaunchedRun) -> None:
    """Check that `attach watch` ends soon after the launcher, with the words of `attach status`."""
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


def paused_and_looked_into(run: LaunchedRun) -> int:
    """Copy and pause the run; synthesis continues while the policy rests.

    Return a sequence number after which no rollout was requested.
    """
    resumed_at = run.newest()
    run.until("a candidate of the resumed run", lambda: len(makers(run, resumed_at)) > 0)
    copied = run.told("checkpoint", "--to", str(run.directory.parent / "copy"))
    assert copied["size_bytes"] > 0
    tail = run.attach("tail", "step_report", "--json", "-n", "2")
    lines = [json.loads(line) for line in tail.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["step_report"] * 2
    assert run.told("pause") == {"run": "steered", "paused": True, "already": False}
    run.until(
        "what is under way to end",
        lambda: run.count(RolloutRequest) == run.count(Rollout) + run.count(FailedRollout),
    )
    quiet_from = run.newest()
    run.until("a task of the endpoint's", lambda: admitted(run, SCRIPTED) > 0)
    run.until("the policy to rest", lambda: waits(run, "rollout-0") == RESTING)
    check_views(run, running=True)
    assert run.told("status")["paused"]
    shown = run.attach("status", "--journal").stdout
    assert "learner" in shown
    assert "newest sequence" in shown
    return quiet_from


def admitted(run: LaunchedRun, synthesizer: str) -> int:
    """Return the number of a synthesizer's candidates that became tasks."""
    verdicts = [each for each in run.scan(CandidateVerdict) if each.synthesizer == synthesizer]
    return sum(isinstance(verdict.outcome, Admitted) for verdict in verdicts)


def waits(run: LaunchedRun, part: str) -> str:
    """Return the state of a part: what it waits for."""
    parts = run.told("status")["parts"]
    return next(each["waits_for"] for each in parts if each["part"] == part)


def check_views(run: LaunchedRun, *, running: bool) -> None:
    """Check that attach's views of signals, tasks and lineage agree, on a live or stopped run.

    A live run may admit a probed candidate between one answer and the next.
    """
    status = run.told("status")
    signals = run.told("signals", "-n", "100000")
    tasks = run.told("tasks", "--origin", "synthesized", "-n", "100000")
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
    probed = [each for each in tasks["tasks"] if each["label"] != "unprobed"]
    task_id = max(probed, key=lambda each: len(each["visits"]))["task_id"]
    lineage = run.told("lineage", task_id)["lineage"]
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


def stopped(run: LaunchedRun) -> None:
    """Stop the run from another terminal; check that it ends cleanly, with a checkpoint."""
    processes = run.processes()
    stop = called("attach", str(run.directory), "stop")
    assert stop.returncode == 0, stop.stderr
    assert run.wait() == 0, run.said()
    assert not gone(processes)
    assert "stopped; continue with: coevolve resume" in run.said()
    assert (run.directory / "checkpoints" / f"step_{run.count(StepReport)}").is_dir()
    dead = run.attach("status")
    assert "not running; this is its state in the journal" in dead.stdout
    refused = run.attach("checkpoint")
    assert refused.returncode == 1
    assert "not running; continue it with" in refused.stderr


def resumed_to_the_end(run: LaunchedRun) -> int:
    """Resume the paused run, end the pause and swap back; return the last step."""
    steps = run.count(StepReport) + FURTHER_STEPS
    before = len(run.events("launch"))
    run.start("--resume", f"learner.steps={steps}")
    run.until("the pause to be told of", lambda: PAUSED in said_since(run, before))
    back = run.attach("swap-synthesizer", "--policy")
    assert back.returncode == 0, back.stderr
    assert not run.told("resume")["already"]
    assert run.wait() == 0, run.said()
    return steps


def said_since(run: LaunchedRun, events: int) -> list[str]:
    """Return the launcher's output after its first ``events`` lines."""
    return [event["text"] for event in run.events("launch")[events:]]


def check_swaps(run: LaunchedRun, messages: list[Message]) -> None:
    """Check that each swap happened once, and that the last one names the synthesizer."""
    swaps = [each.synthesizer for each in messages if isinstance(each, SynthesizerSwapped)]
    assert swaps == [SCRIPTED, "policy@0"]
    assert makers(run)[-1] == "policy@0"

"""A run that makes tasks in AppWorld's apps with a scripted synthesizer, killed and resumed."""

import os
import signal
from pathlib import Path

import pytest

from coevolve.runs.audit import Books
from protocols.evolution import (
    Admitted,
    Candidate,
    CandidateVerdict,
    Exploration,
    Refused,
    Signal,
    SignalSettled,
)
from protocols.learning import StepReport
from protocols.tasks import Synthesized, Task
from tests.app_synthesizer import app_brain, proposals
from tests.chat_server import serving
from tests.commands import answered
from tests.launched import LaunchedRun, gone, launched

pytestmark = [
    pytest.mark.ray,
    pytest.mark.appworld,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("appworld_engine"),
]

PATIENCE_S = 420.0

LOOP = (
    *("arm=full", "learner.steps=10000", "evaluator.every=10000", "rollout.max_tokens=2048"),
    # As soon as the policy has learned to write code, an API that it does not use is rare.
    *("signals.kinds=[rare]", "signals.patterns=[tool]", "signals.rare_share=0.9"),
    *("signals.confidence=0.5", "synthesizer.rounds=1", "synthesizer.steps=2"),
    *("synthesizer.concurrent=1", "validator.concurrent=1", "validator.probe_share=0.0"),
)


GATES = set(proposals("1")) - {""}
"""The gates for which the scripted model makes a candidate each."""


def test_the_loop_makes_tasks_refuses_others_and_trains_on_them_across_a_kill(
    tmp_path: Path,
) -> None:
    with serving(app_brain) as server:
        model = f"{{kind: endpoint, base_url: '{server.base_url}', model: scripted}}"
        options = (*LOOP, f"synthesizer.model={model}")
        with launched(tmp_path, "loop", *options, run_file="configs/appworld_tiny.yaml") as run:
            run.until("a candidate", lambda: run.holds(Candidate), PATIENCE_S)
            everything = run.processes()
            assert run.process
            os.kill(run.process.pid, signal.SIGKILL)
            assert not gone(everything, 60)
            run.start("--resume")
            run.until("a refusal by each gate", lambda: refused(run) >= GATES, PATIENCE_S)
            run.until("training on a made task", lambda: bool(trained(run)), PATIENCE_S)
            assert run.told("stop")["stopped"]
            assert run.wait(120) == 0, run.said()
            messages = [message for _, message in run.journal()]
    books = Books()
    for sequence, message in enumerate(messages, start=1):
        books.enter(sequence, message)
    assert not books.close().faults
    assert any(isinstance(each, Signal) for each in messages)
    settled = [each for each in messages if isinstance(each, SignalSettled)]
    assert any(each.outcome == "synthesized" for each in settled)
    explored = [each for each in messages if isinstance(each, Exploration)]
    assert all(step.text and not step.failed for each in explored for step in each.steps)
    assert refused(run) >= GATES
    made = {
        each.task_id: each
        for each in messages
        if isinstance(each, Task) and isinstance(each.origin, Synthesized)
    }
    verdicts = [each for each in messages if isinstance(each, CandidateVerdict)]
    admitted = [each for each in verdicts if isinstance(each.outcome, Admitted)]
    assert len(made) == len(admitted) > 0
    assert {each.reading.outcome for each in admitted} == {"confirmed"}
    assert {each.skills for each in made.values()} == {("simple_note.create_note",)}
    assert trained(run) <= made.keys()
    refusal = answered("export", str(run.directory), "pool", "--to", str(tmp_path / "out"))
    assert refusal.returncode == 1
    assert "encrypted" in refusal.stderr


def refused(run: LaunchedRun) -> set[str]:
    """Return the gates that refused candidates so far."""
    verdicts = run.scan(CandidateVerdict)
    return {each.outcome.gate for each in verdicts if isinstance(each.outcome, Refused)}


def trained(run: LaunchedRun) -> set[str]:
    """Return the made tasks that a step trained on so far."""
    made = {each.task_id for each in run.scan(Task) if isinstance(each.origin, Synthesized)}
    groups = {group.task_id for report in run.scan(StepReport) for group in report.groups}
    return made & groups

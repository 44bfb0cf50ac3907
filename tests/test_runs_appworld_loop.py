"""A run that makes tasks in AppWorld's apps with a scripted synthesizer, killed and resumed."""

import os
import signal
from pathlib import Path

import pytest

from coevolve.environments.appworld.place import engine_folder
from protocols.errors import DependencyError
from protocols.evolution import (
    Admitted,
    CandidateVerdict,
    Exploration,
    Refused,
    Signal,
    SignalSettled,
)
from protocols.learning import StepReport
from protocols.rollouts import Rollout
from protocols.tasks import Synthesized, Task
from tests.app_synthesizer import app_brain, proposals
from tests.books import check_books
from tests.chat_server import serving
from tests.commands import answered
from tests.launched import gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.appworld, pytest.mark.timeout(900)]

STEPS = 12

LOOP = (
    *("arm=full", f"learner.steps={STEPS}", "evaluator.every=12", "rollout.max_tokens=2048"),
    # So few rollouts show no weakness with confidence: a tool that is never used is rare at once.
    *("signals.kinds=[rare]", "signals.patterns=[tool]", "signals.rare_share=0.9"),
    *("signals.confidence=0.5", "synthesizer.rounds=1", "synthesizer.steps=2"),
    *("synthesizer.concurrent=1", "validator.concurrent=1", "validator.probe_share=0.0"),
)


@pytest.fixture(autouse=True)
def set_up() -> None:
    try:
        engine_folder()
    except DependencyError as error:
        pytest.skip(str(error))


def test_the_loop_makes_tasks_refuses_others_and_trains_on_them_across_a_kill(
    tmp_path: Path,
) -> None:
    with serving(app_brain) as server:
        model = f"{{kind: endpoint, base_url: '{server.base_url}', model: scripted}}"
        options = (*LOOP, f"synthesizer.model={model}")
        with launched(tmp_path, "loop", *options, run_file="configs/appworld_tiny.yaml") as run:
            run.until("a verdict", lambda: run.holds(CandidateVerdict))
            everything = run.processes()
            assert run.process
            os.kill(run.process.pid, signal.SIGKILL)
            assert not gone(everything, 60)
            run.start("--resume")
            assert run.wait(600) == 0, run.said()
            messages = [message for _, message in run.journal()]
    check_books(messages, STEPS)
    assert any(isinstance(each, Signal) for each in messages)
    settled = [each for each in messages if isinstance(each, SignalSettled)]
    assert any(each.outcome == "synthesized" for each in settled)
    explored = [each for each in messages if isinstance(each, Exploration)]
    assert all(step.text and not step.failed for each in explored for step in each.steps)
    verdicts = [each for each in messages if isinstance(each, CandidateVerdict)]
    refused = {each.outcome.gate for each in verdicts if isinstance(each.outcome, Refused)}
    assert refused >= set(proposals("1")) - {""}
    made = {
        each.task_id: each
        for each in messages
        if isinstance(each, Task) and isinstance(each.origin, Synthesized)
    }
    admitted = [each for each in verdicts if isinstance(each.outcome, Admitted)]
    assert len(made) == len(admitted) > 0
    assert {each.skills for each in made.values()} == {("simple_note.create_note",)}
    groups = [each for each in messages if isinstance(each, Rollout) and each.task_id in made]
    assert groups
    assert any(isinstance(each, StepReport) for each in messages)
    refusal = answered("export", str(run.directory), "pool", "--to", str(tmp_path / "out"))
    assert refusal.returncode == 1
    assert "encrypted" in refusal.stderr

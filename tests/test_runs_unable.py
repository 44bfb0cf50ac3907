"""Real runs that cannot make a rollout end by themselves with the reason; others train on."""

import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from coevolve.journal.codec import topic_of
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from coevolve.models.tiny_random.model import write_model
from protocols.config import PolicyConfig, RunConfig
from protocols.learning import StepReport
from protocols.rollouts import FailedRollout
from tests.commands import Answer

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

OWN = Path(__file__).parent / "own"

QWEN = "Qwen/Qwen3-4B-Instruct-2507"
WEIGHTS = "model.safetensors"

WITHIN_S = 300
"""Seconds within which such a run has to end."""

OUTAGE_NS = 100e9
"""A little less than the rest in ``own/broken.py``, in which attempts fail."""


def launched(folder: Path, fault: str, *settings: str, within_s: float = WITHIN_S) -> Answer:
    """Launch the run of a fault from a folder with nothing else in it."""
    for name in ("sums.py", "broken.py"):
        shutil.copy(OWN / name, folder)
    told = (OWN / "sums.yaml").read_text().replace("sums:Sums", "broken:Broken")
    (folder / "run.yaml").write_text(told)
    words = ["launch", "run.yaml", f"environment.fault={fault}", "name=broken", *settings]
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=within_s,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def check_ends(folder: Path, fault: str, reason: str, *settings: str) -> None:
    """Check that a run with this fault ends with this reason, and does not promise more."""
    answer = launched(folder, fault, "learner.steps=50", *settings)
    said = answer.stderr.splitlines()[-1]
    assert answer.returncode == 1, answer.stderr
    assert reason in said
    assert "Traceback" not in said
    assert "resume continues" not in said


def test_a_run_whose_every_opening_raises_ends_with_the_error_of_the_opening(tmp_path: Path):
    check_ends(tmp_path, "opening", "System role not supported in the opening of")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("prompt", "a prompt must be shorter than rollout.max_tokens = 64, found"),
        ("world", "the task's world does not load: KeyError: "),
        ("grader", "reward() raised KeyError: "),
        ("grader dies", "simulator"),
        ("grader hangs", "no answer from the simulator actor within 2.0 s"),
        ("endpoint", "http://127.0.0.1:9/v1: the connection failed (refused)"),
        ("engine", "the logits are not finite"),
        ("process dies", "rollout-0 failed 8 times"),
        ("import", "No module named 'no_such_package'"),
        ("sampler", "the tasks cannot be sorted"),
        ("version gone", "model.safetensors: cannot read the weights of version 0"),
        ("version damaged", "must serve version 0, and its files have the SHA-256"),
    ],
)
def test_a_run_that_cannot_make_a_rollout_ends_with_the_reason(
    tmp_path: Path, fault: str, reason: str
):
    check_ends(tmp_path, fault, reason)


@pytest.mark.exhaustive
def test_a_model_whose_weights_are_not_finite_is_refused_with_the_reason(tmp_path: Path):
    model = tmp_path / "model"
    config = RunConfig(name="nan", policy=PolicyConfig(model=QWEN, tiny_random=True))
    write_model(config, model, ["0 1 2 3 4 5 6 7 8 9 + ="])
    weights = {name: each.fill_(math.nan) for name, each in load_file(model / WEIGHTS).items()}
    save_file(weights, model / WEIGHTS, metadata={"format": "pt"})
    reason = "have the logprob nan: the weights that sampled"
    check_ends(tmp_path, "none", reason, "policy.tiny_random=false", f"policy.model={model}")


@pytest.mark.exhaustive
def test_a_policy_that_fails_everything_on_an_unlucky_machine_trains_on(tmp_path: Path):
    answer = launched(tmp_path, "unlucky", "learner.steps=3", "watchdog.unable_s=8")
    assert answer.returncode == 0, answer.stderr
    with JournalReader(tmp_path / "runs" / "broken" / STORE_FOLDER).snapshot() as state:
        assert len(state.scan(topic_of(StepReport))) == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", ["endpoint rests", "grader rests"])
def test_an_outage_of_two_minutes_does_not_end_a_run_that_worked(tmp_path: Path, fault: str):
    answer = launched(tmp_path, fault, "learner.steps=12", within_s=2 * WITHIN_S)
    assert answer.returncode == 0, answer.stderr
    with JournalReader(tmp_path / "runs" / "broken" / STORE_FOLDER).snapshot() as state:
        assert len(state.scan(topic_of(StepReport))) == 12
        failed = state.scan(topic_of(FailedRollout), limit=10**6)
        assert failed[-1].time_ns - failed[0].time_ns > OUTAGE_NS

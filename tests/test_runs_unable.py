"""Real runs that cannot make a rollout end by themselves with the reason; others train on."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.journal.codec import topic_of
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from protocols.learning import StepReport
from tests.commands import Answer

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

OWN = Path(__file__).parent / "own"

WITHIN_S = 300
"""Seconds within which such a run has to end."""


def launched(folder: Path, fault: str, *settings: str) -> Answer:
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
        timeout=WITHIN_S,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def check_ends(folder: Path, fault: str, reason: str) -> None:
    """Check that a run with this fault ends with this reason, and does not promise more."""
    answer = launched(folder, fault, "learner.steps=50")
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
    ],
)
def test_a_run_that_cannot_make_a_rollout_ends_with_the_reason(
    tmp_path: Path, fault: str, reason: str
):
    check_ends(tmp_path, fault, reason)


def test_a_policy_that_fails_everything_on_an_unlucky_machine_trains_on(tmp_path: Path):
    answer = launched(tmp_path, "unlucky", "learner.steps=3", "watchdog.unable_s=8")
    assert answer.returncode == 0, answer.stderr
    with JournalReader(tmp_path / "runs" / "broken" / STORE_FOLDER).snapshot() as state:
        assert len(state.scan(topic_of(StepReport))) == 3

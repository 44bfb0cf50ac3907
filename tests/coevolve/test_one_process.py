"""`python -m coevolve.loop`, as a user types it."""

import subprocess
import sys
from pathlib import Path

import pytest

SMALL = (
    "learner.steps=1",
    "rollout.group_size=2",
    "evaluator.every=1",
    "environment.held_out=4",
    "environment.seeds=6",
)


def typed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coevolve.loop", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)
def test_a_run_in_one_process_says_its_steps_its_scores_and_where_the_journal_is(tmp_path: Path):
    done = typed(tmp_path, "quickstart", *SMALL)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("step 1 of 1: mean reward ") for line in lines) == 1
    assert [line[:9] for line in lines if line.startswith("version ")] == ["version 0", "version 1"]
    journal = tmp_path / "runs" / "quickstart" / "store"
    assert lines[-1] == f"The journal is in {journal}."
    assert journal.is_dir()
    again = typed(tmp_path, "quickstart", *SMALL)
    assert again.returncode == 1
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("quickstart", "learner.step=1"), "learner.step"),
        (("quickstar",), "quickstart"),
        (("quickstart", "--runs", "runs", "policy.model=/nowhere"), "/nowhere"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(
    words: tuple[str, ...], said: str, tmp_path: Path
):
    done = typed(tmp_path, *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()

"""A real run on hardware designs, whose policy the run makes itself, by its documented command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.hdl, pytest.mark.timeout(300)]

SMALL = (
    "learner.groups_per_step=2",
    "rollout.group_size=4",
    "environment.evaluation_rounds=1",
    "environment.stages=[{writers: [grammar], groups: 2}, {}]",
)


def coevolve(folder: Path, *words: str) -> str:
    """Run a command in ``folder``; return its output. Fails with its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def steps(folder: Path) -> list[int]:
    """Return the steps of the run's metrics."""
    lines = (folder / "runs" / "hdl_tiny" / "metrics.jsonl").read_text().splitlines()
    return sorted({json.loads(line).get("step", 0) for line in lines})


def test_the_tiny_policy_trains_from_an_empty_folder_and_goes_on(tmp_path: Path):
    said = coevolve(tmp_path, "launch", "hdl_tiny", "learner.steps=2", *SMALL)
    assert "2 of 2 steps" in said
    assert (tmp_path / "runs" / "hdl_tiny" / "report.html").stat().st_size
    assert "3 of 3 steps" in coevolve(tmp_path, "resume", "hdl_tiny", "learner.steps=3")
    assert steps(tmp_path)[-1] == 3

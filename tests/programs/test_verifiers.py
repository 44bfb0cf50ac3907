"""Task sets of verifiers, in a Python environment of their own: attempts, and a run through Ray."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.python_folders import OwnPython
from tests.coevolve.environments.program.test_program import running
from tests.commands import answered

pytestmark = [pytest.mark.programs, pytest.mark.timeout(1800)]

FOLDER = Path(__file__).parent
PACKAGES = ("verifiers==0.4.0", "reasoning-gym==0.1.25")
SETTINGS = ProgramConfig(
    tasks="", command=("coevolve:verifiers_worker.py", "counting_legs"), python=PACKAGES
)
WITH_TOOL = 'task={"with_tool": true}'


@pytest.fixture(scope="module")
def answers() -> list[str]:
    """The answers of the puzzles."""
    python = OwnPython(PACKAGES)
    python.make(print)
    code = (
        "import json, sys; sys.path.insert(0, ''); from counting_legs import PUZZLES\n"
        "print(json.dumps([each['answer'] for each in PUZZLES]))"
    )
    done = subprocess.run(
        [python.interpreter, "-c", code], cwd=FOLDER, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


async def test_a_right_answer_is_rewarded_and_a_wrong_one_is_not(answers: list[str]) -> None:
    async with running(SETTINGS, answers[3], "5") as it:
        assert (await it.attempt(index=3)).reward == 1.0
        assert (await it.attempt(index=3)).reward == 0.0


async def test_a_tool_of_a_task_is_called_by_the_policy(answers: list[str]) -> None:
    settings = replace(SETTINGS, command=(*SETTINGS.command, WITH_TOOL))

    def call(**arguments: Any) -> str:
        written = json.dumps({"name": "add", "arguments": arguments})
        return f"<tool_call>\n{written}\n</tool_call>"

    script = (call(one=2, other=3), call(one="no number"), answers[0])
    async with running(settings, *script, max_tokens=8192) as it:
        episode = await it.attempt(index=0)
        assert episode.reward == 1.0
        first, second, last = episode.actions
        assert "5" in first.result
        assert "error" in second.result.lower()
        assert last.result == ""


@pytest.mark.ray
def test_ten_steps_lose_no_rollout(answers: list[str], tmp_path: Path) -> None:
    tasks = tmp_path / "puzzles.jsonl"
    settings = (
        f"command={json.dumps(SETTINGS.command)}",
        f"python={json.dumps(PACKAGES)}",
    )
    written = answered("environment", "tasks", "program", *settings, "--to", str(tasks))
    assert written.returncode == 0, written.stderr
    assert len(tasks.read_text().splitlines()) == len(answers)
    overrides = (
        *(f"environment.{each}" for each in settings),
        f"environment.tasks={tasks}",
        "environment.held_out=2",
        "learner.steps=10",
        "learner.groups_per_step=1",
        "rollout.group_size=2",
        "rollout.max_tokens=512",
        "rollout.concurrent=4",
        "evaluator.every=10",
    )
    words = ("launch", "program_openai", "name=puzzles", *overrides)
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", *words, "--runs", str(tmp_path / "runs")],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert " 0 failed" in done.stdout + done.stderr

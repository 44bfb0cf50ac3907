"""An environment of another kind than tools: nothing in the core was changed for it."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from coevolve.config.load import load_config
from coevolve.environments.findings import findings
from protocols.capabilities import Capabilities
from protocols.errors import ConfigError
from protocols.learning import Evaluation, StepReport
from protocols.rollouts import Rollout
from protocols.tasks import Task
from tests.commands import answered
from tests.launched import launched

FOLDER = Path(__file__).parent
RUN_FILE = FOLDER / "sums.yaml"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    yield
    sys.modules.pop("sums", None)


def test_it_keeps_what_it_declares() -> None:
    answer = answered("environment", "check", "sums:Sums", "largest=5")
    assert "18 sums" in answer.stdout


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "1 / 0"])
def test_a_failure_of_its_own_code_is_a_finding(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tmp_path.name
    source = "import os, sys\nfrom sums import Sums\nclass Ending(Sums):\n"
    source += f"    def describe(self, task):\n        {end}\n"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    answer = answered("environment", "check", f"{name}:Ending", "largest=5", "--json")
    assert answer.returncode == 1
    failing = [each for each in json.loads(answer.stdout) if each["state"] == "fails"]
    assert [each["check"] for each in failing] == ["tasks are described"]
    assert failing[0]["found"].startswith(("SystemExit", "ZeroDivisionError"))


def test_an_arm_that_needs_more_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"^override learner\.imitation\.weight: .* has none"):
        load_config(RUN_FILE, ["learner.imitation.weight=1"])


def test_it_makes_no_tasks_and_says_so() -> None:
    with pytest.raises(ConfigError, match="is without replayable, state_digest; choose arm static"):
        load_config(RUN_FILE, ["arm=full"])


@pytest.mark.parametrize(
    ("override", "remedy"),
    [("evaluator.fresh=3", "leave it 0"), ("pool.new_instances=true", "leave it false")],
)
def test_it_makes_no_instances_and_says_so(override: str, remedy: str) -> None:
    name, _, value = override.partition("=")
    words = f"{name}: {value} needs instances of tasks, and environment sums:Sums makes none"
    with pytest.raises(ConfigError, match=f"override {words}; {remedy}"):
        load_config(RUN_FILE, [override])


def test_a_part_of_an_environment_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "partial.py").write_text("class Partial:\n    config_type = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"needs what an environment has .* no name, "):
        load_config(RUN_FILE, ["environment={use: 'partial:Partial'}"])


def test_what_is_declared_and_not_measured_fails() -> None:
    found = asyncio.run(findings({}, None, Capabilities(fresh_instances=True)))
    assert {each.check for each in found if each.state == "absent"} == set()
    assert {each.state for each in found} == {"fails"}


def test_its_model_is_evaluated_before_any_training():
    evaluated = answered("evaluate", "--config", str(RUN_FILE))
    assert evaluated.returncode == 0, evaluated.stderr
    assert "sums before training" in evaluated.stdout
    assert "step 0" in evaluated.stdout
    refused = answered("evaluate", "--config", str(RUN_FILE), "--calls", "2")
    assert refused.returncode == 1
    assert "--calls: is for environment hdl, found environment sums" in refused.stderr


@pytest.mark.ray
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_run_trains_on_answers(tmp_path: Path) -> None:
    with launched(tmp_path, "sums", run_file=str(RUN_FILE)) as run:
        assert run.wait(400) == 0, run.said()
        assert [each.step for each in run.scan(StepReport)] == [1, 2, 3]
        assert {each.version for each in run.scan(Evaluation)} == {0, 3}
        rollouts = run.scan(Rollout)
        assert {each.reward for each in rollouts} <= {0.0, 1.0}
        assert {task.task_id for task in run.scan(Task)} >= {each.task_id for each in rollouts}
        assert {"references", "replayable", "state_digest"} <= set(run.told("status")["without"])
        own = {each.version: fmean(s.score for s in each.scores) for each in run.scan(Evaluation)}
    evaluated = answered("evaluate", "sums", "--runs", str(tmp_path), "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    report = msgspec.json.decode(evaluated.stdout)
    assert (report["policy"], report["success"]["all"]["mean"]) == ("version 3 of sums", own[3])

"""An environment of one's own, all the way: a plain class, its tasks, and a run on Ray."""

import asyncio
import inspect
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.findings import Finding
from coevolve.environments.registry import environment_named
from protocols.evolution import Signal
from protocols.learning import StepReport
from protocols.tasks import Synthesized, Task
from tests.chat_server import serving
from tests.commands import answered
from tests.launched import launched
from tests.own.brain import key_value_brain

FOLDER = Path(__file__).parent
USE = "keyvalue:KeyValue"


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    yield
    sys.modules.pop("keyvalue", None)


def test_the_whole_environment_is_at_most_sixty_lines() -> None:
    assert len((FOLDER / "keyvalue.py").read_text().splitlines()) <= 60


def test_it_keeps_what_it_promises(importable: None) -> None:
    findings = asyncio.run(environment_named(USE, tasks="keyvalue.jsonl").conformance(100))
    assert {finding.state for finding in findings} == {"holds"}


def test_the_command_says_so(importable: None) -> None:
    answer = answered("environment", "check", USE, "tasks=keyvalue.jsonl", "--json")
    findings = msgspec.json.decode(answer.stdout, type=list[Finding])
    assert {finding.check for finding in findings} >= {"references", "replayable", "state_digest"}


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_a_run_makes_tasks_of_its_own_and_trains_on_them(importable: None, tmp_path: Path) -> None:
    with serving(key_value_brain) as server:
        model = f"{{kind: endpoint, base_url: '{server.base_url}', model: scripted}}"
        settings = (f"synthesizer.model={model}", "evolve_every=4", "evaluator.every=100")
        run_file = str(FOLDER / "run.yaml")
        with launched(tmp_path, "keyvalue", *settings, run_file=run_file) as run:

            def own_tasks() -> set[str]:
                return {t.task_id for t in run.scan(Task) if isinstance(t.origin, Synthesized)}

            def trained() -> set[str]:
                return {group.task_id for each in run.scan(StepReport) for group in each.groups}

            run.until("a task of its own", lambda: run.holds(Task) and bool(own_tasks()), 600)
            run.until("a step on it", lambda: bool(own_tasks() & trained()), 300)
            run.signal(signal.SIGINT)
            assert run.wait(120) == 130, run.said()
            assert run.holds(Signal)
            assert all(task.split == "train" for task in run.scan(Task))


def test_an_environment_that_cannot_be_one_is_refused_in_words(
    importable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    for use, words in (
        ("keyvalue:Nothing", "module keyvalue has no 'Nothing'"),
        ("keyvalue:Keyvalue", "; did you mean keyvalue:KeyValue?"),
        ("nowhere:KeyValue", "there is no module 'nowhere'; package.module:Class names a module"),
        ("nowhere.py:KeyValue", "there is no module 'nowhere.py'; package.module:Class names a"),
        ("./keyvalue.py:KeyValue", "there is no module './keyvalue.py'; package.module:Class"),
        ("keyvalue.py:KeyValue", "there is no module 'keyvalue.py'"),
        ("time:KeyValue", "the name 'time' is taken by Python's own module"),
        ("keyvalue.py:KeyValue", "did you mean keyvalue:KeyValue?"),
        ("own/keyvalue.py:KeyValue", "did you mean own.keyvalue:KeyValue?"),
        ("keyvalue", "write keyvalue:CLASS, with the name of your class"),
        ("./keyvalue.py", "write keyvalue:CLASS, with the name of your class"),
        ("keyvalue.KeyValue", "did you mean keyvalue:KeyValue?"),
        ("keyvalues", "there are filesystem"),
        ("bfcll", "did you mean 'bfcl'?"),
        ("brain:Messages", "has to be a class"),
    ):
        answer = answered("environment", "check", use)
        assert answer.returncode == 1
        assert words in answer.stderr


def test_the_example_that_is_begun_keeps_what_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answered("environment", "init", str(tmp_path / "mine")).returncode == 0
    monkeypatch.syspath_prepend(tmp_path / "mine")
    findings = asyncio.run(environment_named("todo:Todo", tasks="tasks.jsonl").conformance(100))
    assert {finding.state for finding in findings} == {"holds"}
    assert inspect.getdoc(sys.modules["todo"])

"""An environment of one's own, all the way: a plain class, its tasks, and a run on Ray."""

import asyncio
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from coevolve.config.load import load_config
from coevolve.environments.findings import Finding
from coevolve.environments.registry import environment_named
from coevolve.journal.codec import topic_of
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import IDLE_WAIT_S
from protocols.config import RunConfig
from protocols.evolution import Signal
from protocols.learning import StepReport
from protocols.tasks import Synthesized, Task
from tests.chat_server import serving
from tests.commands import answered
from tests.one_process import everything, run_in
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


async def own_tasks_and_steps_on_them(config: RunConfig, store: LocalStore) -> None:
    """Return when the policy was trained on a task that the run made."""
    seen = 0
    while True:
        tasks: list[Task] = await everything(store, Task)
        steps: list[StepReport] = await everything(store, StepReport)
        own = {each.task_id for each in tasks if isinstance(each.origin, Synthesized)}
        if own & {group.task_id for each in steps for group in each.groups}:
            return
        seen = await store.wait((topic_of(Task), topic_of(StepReport)), seen, IDLE_WAIT_S)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("short_waits")
async def test_a_run_makes_tasks_of_its_own_and_trains_on_them(
    importable: None, tmp_path: Path
) -> None:
    with serving(key_value_brain) as server:
        model = f"{{kind: endpoint, base_url: '{server.base_url}', model: scripted}}"
        settings = (f"synthesizer.model={model}", "evolve_every=4", "evaluator.every=100")
        config = load_config(FOLDER / "run.yaml", settings)
        _, store = await run_in(tmp_path, config, own_tasks_and_steps_on_them)
    assert await everything(store, Signal)
    assert all(task.split == "train" for task in await everything(store, Task))


def test_an_environment_that_cannot_be_one_is_refused_in_words(
    importable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    for use, words in (
        ("keyvalue:Nothing", "module keyvalue has no 'Nothing'"),
        ("keyvalue:Keyvalue", "; did you mean keyvalue:KeyValue?"),
        ("nowhere:KeyValue", "there is no module 'nowhere'; package.module:Class names a module"),
        ("keyvalu:KeyValue", "names a module, and no file: did you mean keyvalue:KeyValue?"),
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

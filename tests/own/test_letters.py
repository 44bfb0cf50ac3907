"""A question and a grader: a plain class without tools or worlds, and a run that trains on it."""

import asyncio
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from coevolve.config.load import load_config
from coevolve.environments.findings import Finding
from coevolve.environments.initial_model import make_model
from coevolve.environments.registry import environment_named, environment_type
from coevolve.environments.tools.commands import MAX_WORDS_CHARS, Failed, Passed
from coevolve.environments.tools.own import OwnTools
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.wire import ToolClient
from coevolve.loop import run_here
from coevolve.models.tiny_random.resolve import running
from protocols.capabilities import absent
from protocols.errors import ConfigError, SimulatorError
from protocols.learning import Evaluation, StepReport
from protocols.rollouts import Rollout
from protocols.tasks import Task
from tests.commands import answered
from tests.one_process import everything

FOLDER = Path(__file__).parent
RUN_FILE = FOLDER / "letters.yaml"
USE = "letters:Letters"
NUMBERS = itertools.count()

GRADER = '''
class Grader:
    """Questions."""

    def reward(self, task: dict, answer: str) -> float:
        {body}
'''
WITH_TOOLS = '''
class Grader:
    """A bell, and questions about it."""

    def reset(self, world: int) -> None:
        self.rung = 0

    def ring(self) -> str:
        """Ring the bell."""
        self.rung += 1
        return "ding"

    def reward(self, task: dict, answer: str) -> float:
        return 0.5 * (self.rung == 1) + 0.5 * (answer == "ding")
'''


@pytest.fixture(autouse=True)
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    yield
    sys.modules.pop("letters", None)


def lines(*instructions: str, **fields: object) -> bytes:
    rows = [{"id": f"t{n}", "turns": [{"instruction": i}]} for n, i in enumerate(instructions)]
    return b"".join(msgspec.json.encode(row | fields) + b"\n" for row in rows)


def grader(folder: Path, source: str, *instructions: str) -> OwnTools:
    """Return the environment of a class under a name of its own, since processes remember it."""
    name = f"grader_{next(NUMBERS)}"
    (folder / f"{name}.py").write_text(source)
    (folder / "tasks.jsonl").write_bytes(lines(*(instructions or ("One?", "Two?"))))
    found = environment_named(f"{name}:Grader", tasks=str(folder / "tasks.jsonl"))
    assert isinstance(found, OwnTools)
    return found


async def graded(environment: OwnTools, words: str, *calls: str) -> Passed | Failed:
    service = environment.simulator()
    pool = SimulatorPool([ToolClient(service)])
    try:
        await pool.reset("s", tool_task(environment.source().held_out()[0]))
        for call in calls:
            await pool.act("s", call)
        return await pool.grade("s", words)
    finally:
        await service.close()


def test_the_whole_environment_is_at_most_sixty_lines():
    assert len((FOLDER / "letters.py").read_text().splitlines()) <= 60


async def test_the_grader_gets_the_words():
    environment = environment_named(USE, tasks="letters.jsonl")
    assert isinstance(environment, OwnTools)
    (task, *_) = environment.source().held_out()
    letter = msgspec.json.decode(tool_task(task).extra)["letter"]
    assert await graded(environment, f" {letter.upper()}.") == Passed()
    assert await graded(environment, f"{letter}, perhaps") == Failed(
        reason="reward 0.5", reward=0.5
    )
    assert await graded(environment, "") == Failed(reason="reward 0")


async def test_of_long_words_the_end_is_judged(tmp_path: Path):
    source = GRADER.format(body=f"return float(len(answer) == {MAX_WORDS_CHARS})")
    found = await graded(grader(tmp_path, source), "x" * (MAX_WORDS_CHARS + 1))
    assert found == Passed()


async def test_tools_and_answers_work_together(tmp_path: Path):
    environment = grader(tmp_path, WITH_TOOLS)
    assert await graded(environment, "ding", "ring()") == Passed()
    assert await graded(environment, "dong", "ring()") == Failed(reason="reward 0.5", reward=0.5)
    assert set(absent(environment.capabilities)) == {"references", "fresh_instances"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 0.0 if not answer else float(answer)", r"reward\(\) raised ValueError: could not"),
        ("return 0.0 if not answer else float('nan')", "has to return 0 to 1, but returned nan"),
        ("return 2.0 if answer else 0.0", "has to return 0 to 1, but returned 2.0"),
        ("return None if answer else 0.0", r"reward\(\) raised TypeError"),
    ],
)
async def test_a_reward_that_is_none_is_the_machines_fault(tmp_path: Path, body: str, words: str):
    with pytest.raises(SimulatorError, match=words):
        await graded(grader(tmp_path, GRADER.format(body=body)), "many")


def test_a_reward_that_fails_on_silence_is_found_before_a_run(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"one t0: Grader.reward\(\) raised ValueError"):
        grader(tmp_path, GRADER.format(body="return float(answer)")).source()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"answer": "right"}, "t0, answer 'right': Grader.reward() has to return 0 to 1, but"),
        ({"accepted": {"all": [None, "right"]}}, "answer 'right': Grader.reward() has to return"),
        ({"answer": 3}, ""),
    ],
)
def test_answers_among_the_fields_of_a_task_are_graded(
    tmp_path: Path, fields: dict[str, object], words: str
):
    body = "return 2.0 if answer == 'right' else float(answer == '3')"
    environment = grader(tmp_path, GRADER.format(body=body))
    (tmp_path / "tasks.jsonl").write_bytes(lines("One?", "Two?", **fields))
    findings = {each.check: each for each in asyncio.run(environment.conformance(9))}
    found = findings["rewards are from 0 to 1"]
    assert found.state == ("fails" if words else "holds")
    assert words in found.found or "2 of 2 answers from the fields of tasks get full" in found.found


def test_a_reward_of_another_form_is_refused_in_words(tmp_path: Path):
    (tmp_path / "wrong_grader.py").write_text(
        "class Grader:\n    def reward(self, task, reply): return 1.0\n"
        "    def reset(self, world): ...\n"
    )
    with pytest.raises(ConfigError, match=r"reward\(self, task, answer\), found reward\(self, t"):
        environment_type("wrong_grader:Grader")


def test_questions_are_split_by_what_they_say(tmp_path: Path):
    source = GRADER.format(body="return 0.0")
    said = [f"{word}?" for word in ["one", "two", "three", "four", "five", "six", "seven", "eight"]]
    found = grader(tmp_path, source, *said, *said).source()

    def texts(tasks: tuple[Task, ...]) -> set[str]:
        return {tool_task(task).turns[0].instruction for task in tasks}

    train = texts((*found.pool(), *found.canaries(9)))
    held_out = texts(tuple(found.held_out()))
    assert train
    assert held_out
    assert not train & held_out
    assert train | held_out == set(said)


def test_a_question_on_both_sides_is_found_out(tmp_path: Path):
    environment = grader(tmp_path, GRADER.format(body="return 0.0"))
    same = lines("One?", split="train") + lines("One?", split="held_out").replace(b"t0", b"t1")
    (tmp_path / "tasks.jsonl").write_bytes(same)
    findings = {each.check: each for each in asyncio.run(environment.conformance(9))}
    found = findings["worlds of the splits are disjoint"]
    assert found.state == "fails"
    assert "the instructions, of a training task, such as t1" in found.found


def test_a_grader_that_is_content_with_silence_is_found_out(tmp_path: Path):
    environment = grader(tmp_path, GRADER.format(body="return 1.0"))
    findings = {each.check: each.state for each in asyncio.run(environment.conformance(9))}
    assert findings["rewards are earned"] == "fails"


def test_the_check_passes_and_says_what_is_absent():
    answer = answered("environment", "check", USE, "tasks=letters.jsonl", "--json")
    findings = msgspec.json.decode(answer.stdout, type=list[Finding])
    assert {each.check for each in findings if each.state != "holds"} == {
        "references",
        "replayable",
        "state_digest",
        "fresh_instances",
    }
    assert not any("could be declared" in each.found for each in findings)


def test_what_it_cannot_have_is_refused_before_anything_starts(tmp_path: Path):
    with pytest.raises(ConfigError, match="is without replayable, state_digest; choose arm static"):
        load_config(RUN_FILE, ["arm=full"])
    with pytest.raises(ConfigError, match=r"^override learner\.imitation\.weight: .* has none"):
        load_config(RUN_FILE, ["learner.imitation.weight=1"])
    use = (
        f"environment={{use: '{grader(tmp_path, WITH_TOOLS).name}', "
        f"tasks: '{tmp_path / 'tasks.jsonl'}'}}"
    )
    load_config(RUN_FILE, [use])
    with pytest.raises(ConfigError, match=r"grader_\d+:Grader rewards answers; choose arm static"):
        load_config(RUN_FILE, [use, "arm=full"])


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("short_waits")
async def test_the_parts_train_on_answers(tmp_path: Path):
    config = load_config(RUN_FILE)
    make_model(config, tmp_path)
    store = await run_here(running(config, tmp_path), tmp_path)
    assert [each.step for each in await everything(store, StepReport)] == [1, 2, 3, 4]
    assert {each.version for each in await everything(store, Evaluation)} == {0, 4}
    rollouts: list[Rollout] = await everything(store, Rollout)
    assert {each.reward for each in rollouts} > {0.0}
    assert {each.reward for each in rollouts} <= {0.0, 0.5, 1.0}
    assert {"wrong"} <= {each.ended for each in rollouts}
    assert all(task.split == "train" for task in await everything(store, Task))

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coevolve.commands.environment import check as check_environment
from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.environments.tools.conversations import check_conversations
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from coevolve.launcher.preflight import refuse_missing
from coevolve.models.chat_template import ChatTemplate
from protocols.config import ChatConfig, PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import ConfigError
from protocols.tasks import Seeded, Task, body_of
from tests.coevolve.environments.tools.chat import models
from tests.coevolve.models.test_vocabulary_rows import model

CLASS = "GorillaFileSystem"
LIMITS = RolloutConfig(max_tokens=20_000, max_call_tokens=4_000)


def task(*references: str, task_id: str = "one", instruction: str = "Say it.") -> Task:
    turns = tuple(ToolTurn(instruction=instruction, reference=(call,)) for call in references)
    body = body_of(ToolTask(classes=(CLASS,), world="{}", turns=turns))
    return Task(task_id=task_id, split="train", origin=Seeded(source="test"), body=body)


def renderer(template: str, *, tools: Any = "template") -> ChatRenderer:
    end = "<|im_end|>" if "<|im_end|>" in template else "<|eot_id|>"
    found = ChatTemplate(models.tokenizer_with(template, end=end), variables={}, tools=True)
    return ChatRenderer(found, ChatConfig(tools=tools))


RENDERERS = {
    "tags": renderer(models.TAGS),
    "json": renderer(models.JSON),
    "pythonic": renderer(models.PYTHONIC),
    "prompt": renderer(models.PLAIN, tools="prompt"),
}
TEXTS = (
    *("", " ", "a b", 'it\'s "quoted"', "\\", "\\n", "a\nb\n", "\t", "é ü 漢字 🙂", "{}", "[]"),
    *("<b>bold</b>", "x </think> y", "<think>", "<|im_end|>", "<|eot_id|>", "None", "true", "1"),
    *("x </think> y", "</tool_call> <tool_call>", "a </tool_call>", "</parameter>", "<|eom|>"),
    *('{"name": "ls", "arguments": {}}', "<|im_start|>assistant\nHi", "[ls()]", "```", "a; b"),
)


@pytest.mark.parametrize("kind", RENDERERS)
def test_what_the_template_writes_for_a_reference_is_read_as_that_call(kind: str) -> None:
    tasks = [task(f"echo(content={text!r})", task_id=f"{text!r}") for text in TEXTS]
    check_conversations(RENDERERS[kind], tasks, LIMITS, references=True)


class Deaf:
    """A renderer that reads every call with another value, or not at all."""

    def __init__(self, inner: ChatRenderer, calls: tuple[str, ...] | None) -> None:
        self._inner = inner
        self._calls = calls
        self.stop_ids = inner.stop_ids
        self.opening = inner.opening
        self.instruction = inner.instruction
        self.observation = inner.observation
        self.words = inner.words
        self.demonstration = inner.demonstration

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        if self._calls is None:
            raise ValueError("no end")
        return self._calls


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (("echo(content='1')",), r"task second .* is read as \"echo\(content='1'\)\""),
        (("echo(content=1)", "ls()"), r"task second .* is read as 'echo\(content=1\), ls\(\)'"),
        ((), "task second .* is read as words"),
        (None, "task second .* cannot be read: no end"),
    ],
)
def test_a_reference_that_is_read_as_something_else_is_named_by_its_task(
    calls: tuple[str, ...] | None, words: str
) -> None:
    deaf = Deaf(RENDERERS["tags"], calls)
    with pytest.raises(ConfigError, match=words):
        check_conversations(
            deaf, [task("echo(content=1)", task_id="second")], LIMITS, references=True
        )
    check_conversations(deaf, [task("echo(content=1)")], LIMITS, references=False)


def test_a_reference_that_the_template_cannot_write_is_named_by_its_task() -> None:
    refusing = models.TAGS.replace(
        "{%- for call in message.tool_calls or [] %}",
        "{%- for call in message.tool_calls or [] %}"
        "{% if call.function.arguments.content == 'no' %}{{ raise_exception('Never.') }}"
        "{% endif %}",
    )
    tasks = [task("echo(content='yes')"), task("echo(content='no')", task_id="bad")]
    with pytest.raises(ConfigError, match=r"task bad: .*Never\."):
        check_conversations(renderer(refusing), tasks, LIMITS, references=True)


@pytest.mark.parametrize("kind", RENDERERS)
@pytest.mark.parametrize("turns", [1, 3])
def test_prompts_without_room_for_an_answer_are_refused_with_the_numbers(
    kind: str, turns: int
) -> None:
    found = RENDERERS[kind]
    short, long = (
        task(*["ls()"] * turns, task_id=name, instruction=text)
        for name, text in (("short", "List."), ("long", "List all of it, please. " * 8))
    )
    body = tool_task(long)
    size = len(found.opening(body)) + sum(len(found.instruction(body, n)) for n in range(1, turns))
    fits = RolloutConfig(max_tokens=size + turns)
    check_conversations(found, [short, long], fits, references=False)
    tight = RolloutConfig(max_tokens=size + turns - 1, max_call_tokens=7)
    words = (
        rf"found {size + turns - 1} for the {size} tokens .*task long \(1 of 2.*{size + 7} or more"
    )
    with pytest.raises(ConfigError, match=words):
        check_conversations(found, [short, long], tight, references=False)


@pytest.mark.parametrize("kind", RENDERERS)
@pytest.mark.parametrize("calls", [1, 3])
def test_a_reference_with_a_longer_message_than_allowed_is_refused_with_the_numbers(
    kind: str, calls: int
) -> None:
    found = RENDERERS[kind]
    long = "echo(content='a much longer text than the others')"
    tasks = [task("ls()"), task(*["ls()"] * (calls - 1), long, task_id="long")]
    (call,) = tool_task(task(long)).turns
    played = msgspec.structs.replace(
        tool_task(task(long)), turns=(msgspec.structs.replace(call, results=("",)),)
    )
    _, mask = found.demonstration(msgspec.structs.replace(tasks[1], body=body_of(played)))
    size = max(len(run) for run in bytes(mask).split(b"\0"))
    fits = RolloutConfig(max_tokens=20_000, max_call_tokens=size)
    check_conversations(found, tasks, fits, references=True)
    tight = RolloutConfig(max_tokens=20_000, max_call_tokens=size - 1)
    check_conversations(found, tasks, tight, references=True, imitated=False)
    words = (
        rf"found {size - 1} for the {size} tokens .*task long \(1 of 2.*set it to {size} or more"
    )
    with pytest.raises(ConfigError, match=words):
        check_conversations(found, tasks, tight, references=True)
    check_conversations(found, tasks, tight, references=False)


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a class, its tasks and a chat model, in which commands run."""
    (tmp_path / "parrot.py").write_text(
        'class Parrot:\n    """A bird."""\n\n'
        "    def reset(self, world: dict[str, str]) -> None:\n        self.said = world\n\n"
        "    def say(self, words: str) -> str:\n"
        '        """Repeat the words."""\n        self.said["last"] = words\n        return words\n'
    )
    with (tmp_path / "tasks.jsonl").open("w") as file:
        for number in range(8):
            turn = {"instruction": f"Say {number}.", "reference": [f"say(words='{number}')"]}
            world = {"number": f"{number}"}
            file.write(json.dumps({"id": f"say-{number}", "world": world, "turns": [turn]}) + "\n")
    model(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_start_and_the_check_of_an_environment_refuse_the_same_prompts(
    echo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def config(most: int) -> RunConfig:
        return RunConfig(
            name="parrot",
            arm="static",
            environment={"use": "parrot:Parrot", "tasks": "tasks.jsonl"},
            policy=PolicyConfig(model=str(echo / "model")),
            rollout=RolloutConfig(max_tokens=most),
        )

    refuse_missing(config(2000))
    with pytest.raises(ConfigError, match=r"rollout.max_tokens: .*\(8 of 8 tasks do not fit\)"):
        refuse_missing(config(60))
    settings = ("tasks=tasks.jsonl", f"policy.model={echo / 'model'}")
    for most, verdict in ((2000, "holds"), (60, "fails")):
        given = (*settings, f"rollout.max_tokens={most}")
        passed = check_environment("parrot:Parrot", given, most=8, hostile=False, as_json=True)
        found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
        assert found["conversations"]["state"] == verdict
        assert passed == (verdict == "holds")
    assert "8 of 8 tasks do not fit" in found["conversations"]["found"]

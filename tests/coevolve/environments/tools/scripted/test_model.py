"""Tests of the scripted model: its tasks go through the real synthesizer, gates and reader."""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from coevolve.commands.endpoint import Server
from coevolve.environments.registry import environment_named
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.gates.contrast import AskedReader
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.scripted.model import NAME, ScriptedModel
from coevolve.environments.tools.synthesis.accounts import Account
from coevolve.environments.tools.synthesis.brief import ToolContext, start_of
from coevolve.environments.tools.synthesis.endpoint import EndpointSynthesizer
from coevolve.environments.tools.synthesis.prompt_parts import example
from coevolve.environments.tools.synthesis.prompts import EXPLORE
from coevolve.environments.tools.synthesis.reader import EndpointReader
from coevolve.environments.tools.synthesis.structured_call import Unrecorded
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body, tool_task
from protocols.errors import ConfigError
from protocols.evolution import Candidate, OnTask, Reading
from protocols.synthesis import Anything, Brief
from protocols.synthesizers import EndpointModel
from protocols.tasks import body_of
from tests.simulated import InProcessSimulator

FOLDER = Path(__file__).parents[4] / "own"

NAMES = ("Ada", "Bo", "Cem", "Dora", "Eli", "Fay")

ROUNDS = 8
"""Free explorations of a brief."""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))


def ledger_tasks(folder: Path) -> Path:
    """Write tasks whose wordings differ between training and held-out ones."""
    lines: list[dict[str, Any]] = []
    for number in range(12):
        split = "held_out" if number % 4 == 3 else "train"
        names = [NAMES[(number + each) % 6] for each in range(3)]
        world = {"accounts": [{"owner": each, "balance": 80.0 + number} for each in names]}
        payer, payee = names[:2]
        amount = number + 0.5
        said = {
            "train": (
                f"{payer} gives {amount} to {payee}.",
                f"How much has {payer}?",
                f"Label the account of {payee}: 'late' and 'vip{number}'.",
            ),
            "held_out": (
                f"Please transfer {amount} from {payer} over to {payee}.",
                f"Tell me the funds of {payer}.",
                f"The account of {payee} is now marked 'late' and 'vip{number}'.",
            ),
        }[split]
        calls = (
            f"pay('{payer}', '{payee}', amount={amount})",
            f"balance(owner='{payer}')",
            f"tag(owner='{payee}', labels=['late', 'vip{number}'])",
        )
        turns = [
            {"instruction": text, "reference": [call]}
            for text, call in zip(said, calls, strict=True)
        ]
        kept = turns if number % 2 else [turns[number // 2 % 3]]
        lines.append({"id": f"t{number}", "world": world, "split": split, "turns": kept})
    file = folder / "ledger.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def opened(use: str, **settings: Any) -> ToolEnvironment:
    environment = environment_named(use, **settings)
    assert isinstance(environment, ToolEnvironment)
    return environment


@contextmanager
def served(environment: ToolEnvironment) -> Generator[EndpointModel]:
    model = ScriptedModel([tool_task(task) for task in environment.source().pool()])
    with Server(model, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield EndpointModel(base_url=server.base_url, model=NAME, timeout_s=20.0)
        finally:
            server.shutdown()
            thread.join()


async def made(environment: ToolEnvironment, model: EndpointModel) -> list[Candidate]:
    """Return candidates of one free brief and of one about the first task of the pool."""
    source = environment.source()
    task = source.pool()[0]
    synthesizer = EndpointSynthesizer(model, simulator=InProcessSimulator())
    await synthesizer.check()
    found: list[Candidate] = []
    try:
        for number, about in enumerate((Anything(), OnTask(task_id=task.task_id))):
            is_free = isinstance(about, Anything)
            # Rounds ask the same first question at once, so the order of its answers varies.
            starts = tuple(source.start(ROUNDS * number + each) for each in range(ROUNDS))
            context = ToolContext(
                instructions=() if is_free else instructions(tool_task(task)),
                starts=starts if is_free else (start_of(task), *starts),
            )
            brief = Brief(
                signal_id=f"signal-{number}",
                kind="boundary",
                about=about,
                attempts=(),
                steps=12,
                context=body_of(context),
                seed=1,
                policy_version=0,
            )
            found += (await synthesizer.synthesize(brief, Unrecorded())).candidates
    finally:
        await synthesizer.close()
    return found


async def readings(
    model: EndpointModel, candidates: Sequence[Candidate]
) -> list[tuple[Candidate, Reading]]:
    async def account_of(candidate: Candidate) -> Account:
        del candidate
        return Account(calls=nullcontext(Unrecorded()), kind="boundary")

    reader = EndpointReader(model, account_of=account_of)
    gates = ToolGates(
        InProcessSimulator(), calls_per_turn=12, reader=AskedReader(reader, rebuilds=1)
    )
    try:
        return [
            (each, (await gates.read(each, await gates.examine(each))).reading)
            for each in candidates
        ]
    finally:
        await reader.close()


def said(candidate: Candidate) -> tuple[str, ...]:
    return instructions(read_body(candidate.body))


def instructions(body: ToolTask) -> tuple[str, ...]:
    return tuple(turn.instruction for turn in body.turns)


@pytest.mark.parametrize("use", ["keyvalue:KeyValue", "ledger:Ledger", "filesystem"])
async def test_of_any_class_of_tools_it_makes_tasks_that_gates_and_reader_confirm(
    use: str, tmp_path: Path
) -> None:
    files = {"keyvalue": FOLDER / "keyvalue.jsonl", "ledger": ledger_tasks(tmp_path)}
    tasks = files.get(use.partition(":")[0])
    environment = opened(use, tasks=str(tasks)) if tasks else opened(use)
    with served(environment) as model:
        candidates = await made(environment, model)
        outcomes = await readings(model, candidates)
    confirmed = {said(each) for each, reading in outcomes if reading.outcome == "confirmed"}
    assert len(confirmed) >= 8
    assert any(len(turns) > 1 for turns in confirmed)
    assert not [each for each, reading in outcomes if reading.outcome == "refuted"]
    given = {instructions(tool_task(task)) for task in environment.source().pool()}
    assert confirmed - given


async def test_it_words_nothing_as_a_held_out_task_is_worded(tmp_path: Path) -> None:
    environment = opened("ledger:Ledger", tasks=str(ledger_tasks(tmp_path)))
    with served(environment) as model:
        candidates = await made(environment, model)
    texts = [text for each in candidates for text in said(each)]
    assert texts
    assert not [text for text in texts if "Please" in text or "funds" in text or "now" in text]


def turn(instruction: str, *calls: str) -> ToolTurn:
    return ToolTurn(instruction=instruction, reference=calls)


def body(*turns: ToolTurn) -> ToolTask:
    return ToolTask(classes=("GorillaFileSystem",), world='{"GorillaFileSystem":{}}', turns=turns)


@pytest.mark.parametrize(
    "turns",
    [
        (turn("Do it.", "touch(file_name='a.txt')"),),
        (turn("What is here?", "ls()"),),
        (turn("Ask me.", "touch(file_name"), turn("Go on.")),
    ],
)
def test_tasks_whose_words_say_no_value_of_a_call_are_refused(turns: tuple[ToolTurn, ...]) -> None:
    with pytest.raises(ConfigError, match="needs training tasks whose instructions say values"):
        ScriptedModel([body(*turns)])


def test_words_that_do_not_tell_the_calls_are_no_template() -> None:
    model = ScriptedModel(
        [
            body(turn("Close the newest in 'x.txt'.", "echo(content='7', file_name='x.txt')")),
            body(turn("Close the newest in 'y.txt'.", "echo(content='9', file_name='y.txt')")),
            body(turn("Copy a.txt to a.txt.", "cp(source='a.txt', destination='a.txt')")),
            body(turn("Make 'z.txt'.", "touch(file_name='z.txt')")),
        ]
    )
    assert [each.calls for each in model.templates] == [("touch(file_name=\x000\x00)",)]


def test_an_answer_follows_from_the_question_and_from_how_often_it_was_asked() -> None:
    tasks = [body(turn(f"Make '{name}.txt'.", f"touch(file_name='{name}.txt')")) for name in NAMES]
    asked = [{"role": each.role, "content": each.content} for each in example()]
    assert ScriptedModel(tasks).answer(asked) == ScriptedModel(tasks).answer(asked)
    free = [
        {"role": "system", "content": EXPLORE.format(data="", tools="")},
        {"role": "user", "content": "Goal: any"},
    ]
    one, other = ScriptedModel(tasks), ScriptedModel(tasks)
    answers = [one.answer(free) for _ in range(6)]
    assert answers == [other.answer(free) for _ in range(6)]
    assert len(set(answers)) > 1

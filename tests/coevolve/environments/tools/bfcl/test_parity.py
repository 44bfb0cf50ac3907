"""Compares verdicts and answers of the real child process with those of the package itself."""

import ast
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from coevolve.environments.tools.bfcl.catalogue import CATEGORIES, load_tasks
from coevolve.environments.tools.bfcl.settings import BfclCategory
from coevolve.environments.tools.commands import (
    Act,
    Failed,
    Grade,
    Observed,
    Passed,
    Release,
    Reset,
)
from coevolve.environments.tools.task import read_body
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.environments.tools.worker import ToolWorker
from protocols.tasks import Task, body_of

Turns = list[list[str]]

CHANGES = {
    "GorillaFileSystem": "touch(file_name='zz_extra.txt')",
    "MathAPI": "add(a=1, b=2)",
    "MessageAPI": "add_contact(user_name='Zed Extra')",
    "TwitterAPI": "post_tweet(content='extra')",
    "TicketAPI": "create_ticket(title='extra', description='', priority=1)",
    "TradingBot": "add_to_watchlist(stock='ZETA')",
    "TravelAPI": "register_credit_card(card_number='4', expiration_date='1/2030', "
    "cardholder_name='Z', card_verification_number=1)",
    "VehicleControlAPI": "adjustClimateControl(temperature=33.5)",
}


async def hold(worker: ToolWorker, task: Task, turns: Turns) -> tuple[str, list[str]]:
    """Return the reason of the first failure (empty if all passed) and the answers to all calls."""
    commands: list[Any] = [Reset(session="s", task=read_body(task.body))]
    for turn in turns:
        commands += [Act(session="s", text=call) for call in turn]
        commands.append(Grade(session="s"))
    replies = await worker.execute([*commands, Release(session="s")])
    answers = [reply.result for reply in replies if isinstance(reply, Observed)]
    verdicts = [reply for reply in replies if isinstance(reply, Passed | Failed)]
    assert len(answers) == sum(map(len, turns))
    assert len(verdicts) == len(turns)
    reasons = [verdict.reason for verdict in verdicts if isinstance(verdict, Failed)]
    return (reasons[0] if reasons else ""), answers


def settled(answer: str) -> str:
    """Return the answer with the package's printed set sorted; its order follows the hash seed."""
    return re.sub(
        r"Must be one of \{([^}]*)\}",
        lambda found: "one of " + " ".join(sorted(found[1].split(", "))),
        answer,
    )


def reference(task: Task) -> Turns:
    return [list(turn.reference) for turn in read_body(task.body).turns]


def calls(turns: Turns) -> list[str]:
    return [call for turn in turns for call in turn]


@pytest.mark.parametrize("category", CATEGORIES)
async def test_every_ground_truth_passes_with_the_answers_of_the_package(
    category: BfclCategory, worker: ToolWorker, stock: Any
) -> None:
    tasks = load_tasks([category])
    assert len(tasks) == 200
    for task in tasks:
        turns = reference(task)
        reason, answers = await hold(worker, task, turns)
        assert reason == "", task.task_id
        assert answers == stock.answers(task, calls(turns)), task.task_id
    assert worker.restarts == 0


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("category", CATEGORIES)
async def test_mutated_ground_truths_get_the_verdicts_of_the_package(
    category: BfclCategory, each: int, worker: ToolWorker, stock: Any
) -> None:
    compared: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    tasks = load_tasks([category])[::each]
    for task in tasks:
        # With no tool withheld, the verdict equals the package's for any order of calls.
        open_task = msgspec.structs.replace(
            task, body=body_of(msgspec.structs.replace(read_body(task.body), withheld=()))
        )
        for kind, turns in mutations(task):
            reason, answers = await hold(worker, open_task, turns)
            expected = stock.answers(task, calls(turns))
            assert list(map(settled, answers)) == list(map(settled, expected)), (kind, turns)
            assert reason == stock.verdict(task, turns), (task.task_id, kind, turns)
            compared[kind] += 1
            failed[kind] += bool(reason)
    assert compared.total() >= 5 * len(tasks)
    assert worker.restarts == 0
    assert failed["empty turn"] == compared["empty turn"] == len(tasks)
    assert 0 < failed["extra change"] < compared["extra change"] or category != "base"


async def test_withheld_tools_are_judged_like_tools_that_do_not_exist(
    worker: ToolWorker, stock: Any
) -> None:
    withheld = differing = 0
    for task in load_tasks(["miss_func"]):
        for kind, turns in mutations(task):
            hidden = hide_withheld(task, turns)
            withheld += hidden != turns
            reason, _ = await hold(worker, task, turns)
            assert reason == stock.verdict(task, hidden), (task.task_id, kind)
            differing += reason != stock.verdict(task, turns)
    assert withheld > 100
    assert 0 < differing <= withheld


@pytest.mark.parametrize("category", ["base", "long_context"])
async def test_random_calls_get_the_answers_of_the_package(
    category: BfclCategory, worker: ToolWorker, stock: Any
) -> None:
    for task in load_tasks([category]):
        chance = random.Random(task.task_id)
        said = [random_call(task, chance) for _ in range(25)]
        _, answers = await hold(worker, task, [said, *[[] for _ in read_body(task.body).turns[1:]]])
        expected = stock.answers(task, said)
        assert list(map(settled, answers)) == list(map(settled, expected)), said
    assert worker.restarts == 0


def random_call(task: Task, chance: random.Random) -> str:
    """Return a call of a documented tool with arguments of mostly the right types."""
    words = re.findall(r'"([^"]{1,40})"', read_body(task.body).world)
    document = chance.choice(tool_documents(chance.choice(read_body(task.body).classes)))
    needed = document.parameters["required"]
    arguments = {
        name: random_value(schema["type"], words, chance)
        for name, schema in document.parameters["properties"].items()
        if chance.random() < (0.95 if name in needed else 0.5)
    }
    if "precision" in arguments:
        arguments["precision"] = chance.choice([0, 1, 5, 50])
    return f"{document.name}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def random_value(kind: str, words: Sequence[str], chance: random.Random) -> object:
    if chance.random() < 0.1:
        kind = chance.choice(["string", "integer", "float", "boolean", "array", "dict", "null"])
    match kind:
        case "string":
            return chance.choice(words)
        case "integer":
            return chance.choice([-1, 0, 1, 2, 3, 10, 12345, 10**20])
        case "float" | "number":
            return chance.choice([-1.5, 0.0, 0.1, 2.0, 100.0, 1e300])
        case "boolean":
            return chance.random() < 0.5
        case "array":
            return [random_value("string", words, chance) for _ in range(chance.randrange(4))]
        case "dict":
            return {chance.choice(words): random_value("float", words, chance)}
        case _:
            return None


def hide_withheld(task: Task, turns: Turns) -> Turns:
    """Return the turns with calls of tools that are still withheld renamed."""
    hidden = set(read_body(task.body).withheld)
    renamed: Turns = []
    for turn, said in zip(read_body(task.body).turns, turns, strict=True):
        hidden -= {*turn.revealed, *map(tool, turn.reference)}
        renamed.append([f"no_{call}" if tool(call) in hidden else call for call in said])
    return renamed


def tool(call: str) -> str:
    return call.partition("(")[0].strip()


def mutations(task: Task) -> Iterator[tuple[str, Turns]]:
    """Yield at least eight kinds of fault, each with a reference that contains it."""
    chance = random.Random(task.task_id)
    turns = reference(task)
    places = [(t, c) for t, turn in enumerate(turns) for c in range(len(turn))]
    t, c = chance.choice(places)
    yield "dropped", edited(turns, t, [*turns[t][:c], *turns[t][c + 1 :]])
    last = max(t for t, _ in places)
    yield "last dropped", edited(turns, last, turns[last][:-1])
    yield "empty turn", edited(turns, t, [])
    yield "repeated", edited(turns, t, [*turns[t][: c + 1], *turns[t][c:]])
    yield "reversed", [turn[::-1] for turn in turns]
    yield "reordered", reordered(turns, chance)
    t, c = chance.choice(places)
    changed = wrong_argument(turns[t][c], chance)
    yield "wrong argument", edited(turns, t, [*turns[t][:c], changed, *turns[t][c + 1 :]])
    corrected = [*turns[t][:c], changed, *turns[t][c:]]
    yield "wrong, then right", edited(turns, t, corrected)
    extra = CHANGES[chance.choice(read_body(task.body).classes)]
    yield "extra change", edited(turns, t, [*turns[t][:c], extra, *turns[t][c:]])
    yield "unknown tool", edited(turns, t, [*turns[t][:c], "teleport(to='home')", *turns[t][c:]])
    if early := [t for t in range(len(turns) - 1) if turns[t + 1]]:
        t = chance.choice(early)
        yield (
            "one turn early",
            edited(edited(turns, t, [*turns[t], *turns[t + 1]]), t + 1, turns[t + 1][-1:]),
        )


def edited(turns: Turns, place: int, turn: Sequence[str]) -> Turns:
    return [*turns[:place], list(turn), *turns[place + 1 :]]


def reordered(turns: Turns, chance: random.Random) -> Turns:
    """Return the turns with all calls shuffled."""
    shuffled = calls(turns)
    chance.shuffle(shuffled)
    return [[shuffled.pop() for _ in turn] for turn in turns]


def wrong_argument(call: str, chance: random.Random) -> str:
    """Return the call with one argument changed, or with a new one if it has none."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    constants = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    if not constants:
        node.keywords.append(ast.keyword("unknown", ast.Constant(1)))
        return ast.unparse(node)
    constant = chance.choice(constants)
    match constant.value:
        case bool(value):
            constant.value = not value
        case int(value) | float(value):
            constant.value = value + 1
        case str(value):
            constant.value = value + "_x"
        case _:
            constant.value = "something"
    return ast.unparse(node)

"""Held-out requests asked again in other words: they are found by what they ask for."""

import re
from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from coevolve.environments.tools.filesystem.grammar import UNIFORM, draw_task, held_out_tasks
from coevolve.environments.tools.gates.similarity import Leaks, Likenesses, likeness
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from protocols.tasks import body_of
from tests.meant.asked_again import LANGUAGES, asked_again


@pytest.fixture(scope="module")
def held_out() -> Likenesses:
    found = Likenesses(0.8)
    for task in held_out_tasks(480):
        found.add(task.task_id, task.body)
    return found


def test_at_most_two_of_a_hundred_requests_that_are_asked_again_pass(held_out: Likenesses) -> None:
    again = list(asked_again())
    assert len(again) == 200
    assert Counter(each.kind.partition(",")[0] for each in again) == dict.fromkeys(LANGUAGES, 40)
    assert len({each.kind for each in again}) >= 12
    passing = [each for each in again if not held_out.overlapping(body_of(each.body))]
    assert len(passing) <= 4, [(each.kind, each.body.turns) for each in passing]
    leaks, task = Leaks(held_out_tasks(480)), held_out_tasks(480)[0]
    assert leaks(replace(task, body=body_of(again[0].body)))


def test_tasks_of_the_grammar_leak_no_more_often_than_by_their_words(held_out: Likenesses) -> None:
    rng = np.random.default_rng(3)
    drawn = [draw_task(rng, UNIFORM, int(rng.integers(1, 4))) for _ in range(200)]
    words = Likenesses(0.8)
    for task in held_out_tasks(480):
        words.remember(task.task_id, likeness(tool_task(task))._replace(asked=(), whole=None))
    before = sum(bool(words.overlapping(task.body)) for task in drawn)
    assert 0 < before <= sum(bool(held_out.overlapping(task.body)) for task in drawn) <= before + 6


PLAN = ("Please tell me what 'plan.txt' says.", ("cat(file_name='plan.txt')",))
MOVED = (
    "Make 'a1', put 'b1' there and show 'c1'.",
    ("mkdir(dir_name='a1')", "mv(source='b1', destination='a1')", "cat(file_name='c1')"),
)
Turn = tuple[str, tuple[str, ...]]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (PLAN, ("Could I see the text in plan.txt?", ("cat('plan.txt')",))),
        (PLAN, ("Ler 'plan.txt'", ("cat('./plan.txt')",))),
        (PLAN, ("Прочти 'PLAN.txt'", ("cat('PLAN.txt')",))),
        (PLAN, ("Leggi 'walnut.txt'", ("cat('walnut.txt')",))),
        (PLAN, (f"Hi! {PLAN[0]}", ("pwd()", "cat('plan.txt')"))),
        (MOVED, (f"{MOVED[0]} You would save my day!", MOVED[1])),
        (
            MOVED,
            (
                "Show 'z3'; before, make 'x1' and put 'y2' there, thanks.",
                ("cat('z3')", "mkdir('x1')", "mv('y2', 'x1')"),
            ),
        ),
    ],
)
def test_what_asks_the_same_in_other_words_is_found(given: Turn, asked: Turn) -> None:
    assert _with(given).overlapping(body_of(with_turn(*asked)))


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (PLAN, ("Could I see the text in walnut.txt?", ("cat('walnut.txt')",))),
        (PLAN, ("Lösche 'plan.txt'", ("rmdir('plan.txt')",))),
        (PLAN, ("Sortuj 'plan.txt' i 'cedar.txt'", ("diff('plan.txt', 'cedar.txt')",))),
        (
            MOVED,
            (
                "Make 'x1', put 'y2' in 'w4', thanks, and show 'z3'.",
                ("mkdir('x1')", "mv('y2', 'w4')", "cat('z3')"),
            ),
        ),
    ],
)
def test_other_work_is_no_leak_in_any_words(given: Turn, asked: Turn) -> None:
    assert not _with(given).overlapping(body_of(with_turn(*asked)))


def _with(given: Turn) -> Likenesses:
    """Return the given task beside others, whose words show the language of all."""
    found = Likenesses(0.8)
    for task in held_out_tasks(480):
        if not re.search("rmdir|diff", str(tool_task(task).references)):
            found.add(task.task_id, task.body)
    found.add("given", body_of(with_turn(*given)))
    return found


def test_a_thanked_request_is_found_as_one_turn_of_a_longer_task(held_out: Likenesses) -> None:
    first = tool_task(held_out_tasks(480)[0]).turns[0]
    thanked = ToolTurn(instruction=f"{first.instruction} Thanks!", reference=first.reference)
    before = ToolTurn(instruction="Make 'walnut'.", reference=("mkdir(dir_name='walnut')",))
    body = replace(with_turn("", ()), turns=(before, thanked))
    assert held_out.overlapping(body_of(body))
    lone = Likenesses(0.8)
    lone.add("given", body_of(with_turn(*PLAN)))
    lone.discard("given")
    assert not lone.overlapping(body_of(with_turn("Lies 'plan.txt'", ("cat('plan.txt')",))))


def with_turn(instruction: str, calls: tuple[str, ...]) -> ToolTask:
    body = tool_task(held_out_tasks(480)[0])
    return replace(body, turns=(ToolTurn(instruction=instruction, reference=calls),))

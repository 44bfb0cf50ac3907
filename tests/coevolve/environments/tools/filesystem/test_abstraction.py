import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.environments.tools.filesystem.abstraction import (
    mentions_its_slots,
    trajectory,
    written,
)
from coevolve.environments.tools.filesystem.grammar import UNIFORM, draw_task, paraphrases
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import CHECKPOINT
from coevolve.environments.tools.task import ToolTurn, read_body
from tests.bench.tiny_policy import lesson

RENDERER = TinyRenderer.load(CHECKPOINT)
FIND_AND_REMOVE = ToolTurn(
    instruction="Find 'plan.md' in some folder and delete it.",
    reference=(
        "find(path='.', name='plan.md')",
        "cd(folder='lab')",
        "rm(file_name='plan.md')",
    ),
    results=(
        '{"matches": ["./lab/plan.md"]}',
        '{"current_working_directory": "lab"}',
        '{"result": "\'plan.md\' removed"}',
    ),
)


def test_a_lesson_is_a_trajectory_with_its_answers_and_then_the_instruction() -> None:
    ids, mask = lesson(RENDERER, FIND_AND_REMOVE)
    prompt = trajectory(RENDERER, FIND_AND_REMOVE.reference, FIND_AND_REMOVE.results)
    assert RENDERER.decode(prompt) == (
        "<s>find(path='.', name='plan.md')<e><o>./lab/plan.md"
        "cd(folder='lab')<e><o>lab"
        "rm(file_name='plan.md')<e><o>'plan.md' removed<n>"
    )
    assert ids[: len(prompt)] == prompt
    assert mask == (0,) * len(prompt) + (1,) * (len(ids) - len(prompt))
    assert written(RENDERER, ids[len(prompt) :]) == FIND_AND_REMOVE.instruction


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_the_grammars_own_instructions_pass_the_filter(seed: int) -> None:
    task = draw_task(np.random.default_rng(seed), UNIFORM, 2)
    for skill, turn in zip(task.skills, read_body(task.body).turns, strict=True):
        for instruction in paraphrases(skill, turn.reference):
            assert mentions_its_slots(instruction, turn.reference, turn.results)


@pytest.mark.parametrize(
    "instruction",
    [
        "Find 'plan.txt' in some folder and delete it.",
        "Find 'plan.md' in 'docs' and delete it.",
        "Delete it.",
        "Find 'plan.md in some folder.",
        "Find 'plan.md' and delete it 2 times.",
    ],
)
def test_other_names_missing_names_and_other_numbers_do_not(instruction: str) -> None:
    turn = FIND_AND_REMOVE
    assert not mentions_its_slots(instruction, turn.reference, turn.results)


def test_an_argument_shown_by_an_answer_may_be_missing() -> None:
    turn = FIND_AND_REMOVE
    assert mentions_its_slots("Find 'plan.md' and delete it.", turn.reference, turn.results)
    blind = ("None",) * 3
    assert not mentions_its_slots("Find 'plan.md' and delete it.", turn.reference, blind)


def test_a_number_must_be_in_the_instruction() -> None:
    call, result = ("tail(file_name='a.txt', lines=1)",), ('{"last_lines": "x"}',)
    assert mentions_its_slots("Show the last 1 lines of 'a.txt'.", call, result)
    assert not mentions_its_slots("Show the last 3 lines of 'a.txt'.", call, result)
    assert not mentions_its_slots("Show the last lines of 'a.txt'.", call, result)

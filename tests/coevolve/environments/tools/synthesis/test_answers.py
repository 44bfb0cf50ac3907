import json

import pytest

from coevolve.environments.tools.synthesis.answers import (
    MAX_TASKS,
    AbstractedTask,
    AbstractedTurn,
    Judgement,
    Move,
    UnusableAnswerError,
    read_judgement,
    read_move,
    read_reflection,
    read_tasks,
)
from protocols.evolution import Reflection

MOVE = '{"reason": "look {around}", "action": "ls()"}'


@pytest.mark.parametrize(
    "answer",
    [
        MOVE,
        f"```json\n{MOVE}\n```",
        f"Let me see. {MOVE} That is all.",
        f'<think>Perhaps {{"action": "rm()"}}?</think>\n{MOVE}',
        f'First I thought of {{"action": "pwd()"}}, but: {MOVE}',
        f"The set {{a, b}} is {MOVE}",
        f'{MOVE}\n{{"unrelated": 1}}',
    ],
)
def test_the_object_is_found_anywhere_in_the_answer(answer: str) -> None:
    assert read_move(answer) == Move(reason="look {around}", action="ls()")


def test_a_step_may_be_the_last() -> None:
    assert read_move('{"reason": "enough", "done": true}').done


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("", "it holds no JSON object"),
        ("I would list the files.", "it holds no JSON object"),
        ('{"action": "ls()"', "its JSON object does not parse: Expecting ',' delimiter"),
        ('{"action": "ls("}}', "no complaint"),
        ('{"action": 3}', "Expected `str`, got `int` - at `$.action`"),
        ('{"reason": "hm"}', 'needs either "action" with one call or "done": true'),
        ('{"action": "ls()", "done": true}', 'needs either "action" with one call'),
        ('{"action": "\\ud800"}', "truncated"),
        ("[" * 100_000, "it holds no JSON object"),
        ('{"a":' * 30_000, "does not parse"),
    ],
)
def test_the_complaint_names_the_exact_fault(answer: str, complaint: str) -> None:
    if complaint == "no complaint":
        assert read_move(answer).action == "ls("
        return
    with pytest.raises(UnusableAnswerError) as caught:
        read_move(answer)
    assert complaint in str(caught.value)


def test_a_reflection_may_say_one_thing_where_a_list_is_wanted() -> None:
    answer = {"summary": "s", "failure_cause": "f", "focus_pattern": "x", "avoid_pattern": ["y"]}
    assert read_reflection(json.dumps(answer)) == Reflection(
        summary="s",
        failure_cause="f",
        instability_pattern="",
        focus_pattern=("x",),
        avoid_pattern=("y",),
    )


def test_tasks_have_turns_and_turns_have_calls() -> None:
    task = {"turns": [{"instruction": "List.", "calls": ["ls()"]}]}
    assert read_tasks(json.dumps({"tasks": [task] * 9})) == MAX_TASKS * (
        AbstractedTask(turns=(AbstractedTurn(instruction="List.", calls=("ls()",)),)),
    )
    assert read_tasks('{"tasks": []}') == ()


def test_a_turn_may_have_no_calls_and_a_tool_may_be_missing_at_first() -> None:
    asked = {"instruction": "List.", "calls": []}
    given = {"instruction": "", "calls": ["ls()"], "revealed": ["ls"]}
    answer = json.dumps({"tasks": [{"withheld": ["ls"], "turns": [asked, given]}]})
    (task,) = read_tasks(answer)
    assert task.withheld == task.turns[1].revealed == ("ls",)
    assert [turn.calls for turn in task.turns] == [(), ("ls()",)]


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        ({"turns": []}, r"length >= 1 - at .*turns`"),
        (
            {"turns": [{"instruction": "List.", "calls": ["ls()"] * 13}]},
            r"length <= 12 - at .*calls",
        ),
        ({"turns": [{"instruction": "List.", "calls": [""]}]}, r"length >= 1 - at .*calls"),
        ({"turns": [{"calls": ["ls()"]}]}, "missing required field `instruction`"),
    ],
)
def test_an_invalid_task_is_refused(task: object, complaint: str) -> None:
    with pytest.raises(UnusableAnswerError, match=complaint):
        read_tasks(json.dumps({"tasks": [task]}))


def test_a_judgement_is_yes_or_no() -> None:
    assert read_judgement('{"reason": "sound", "success": true}') == Judgement(
        success=True, reason="sound"
    )
    with pytest.raises(UnusableAnswerError):
        read_judgement('{"success": "true"}')

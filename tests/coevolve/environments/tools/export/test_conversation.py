import json

import msgspec
import pytest

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.export.conversation import REVEALED, Said, chat, reference
from coevolve.environments.tools.export.tools import function_of, tools_json
from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task

FILES = ("GorillaFileSystem",)
BODY = ToolTask(
    classes=FILES,
    world="{}",
    turns=(
        ToolTurn(
            instruction="Go to docs and look.", reference=("cd('docs')", "ls()"), results=("1", "2")
        ),
        ToolTurn(instruction="Sort 'a'.", reference=("sort('a')",), results=("3",)),
    ),
)


def test_a_reference_is_a_chat_in_which_every_turn_ends():
    assert json.loads(msgspec.json.encode(reference(BODY))) == [
        {"role": "user", "content": "Go to docs and look."},
        assistant("call_0", "cd", '{"folder": "docs"}'),
        {"role": "tool", "content": "1", "tool_call_id": "call_0"},
        assistant("call_1", "ls", "{}"),
        {"role": "tool", "content": "2", "tool_call_id": "call_1"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Sort 'a'."},
        assistant("call_2", "sort", '{"file_name": "a"}'),
        {"role": "tool", "content": "3", "tool_call_id": "call_2"},
        {"role": "assistant", "content": ""},
    ]


def assistant(call_id: str, name: str, arguments: str) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def test_several_calls_of_one_message_stay_together_and_are_answered_in_order():
    said = Said(turn=0, text="Let me.", calls=("cd('docs')", "ls()"), answers=("1", "2"))
    _, calling, first, second = chat(BODY, (said,))
    assert [call.function.name for call in calling.tool_calls] == ["cd", "ls"]
    assert calling.content == "Let me."
    assert (first.content, first.tool_call_id) == ("1", calling.tool_calls[0].id)
    assert (second.content, second.tool_call_id) == ("2", calling.tool_calls[1].id)


@pytest.mark.parametrize("call", ["rm -rf /", "nuke()", "ls(1, 2, 3)", "cat(file_name=1e999)"])
def test_an_invalid_call_becomes_the_policys_text_and_its_answer_a_user_message(call: str):
    said = Said(turn=0, text="", calls=(call,), answers=("Error: no",))
    _, words, answer = chat(BODY, (said,))
    assert (words.role, words.content, words.tool_calls) == ("assistant", call, ())
    assert (answer.role, answer.content) == ("user", "Error: no")


def test_calls_that_were_not_executed_have_no_answer():
    assert [message.role for message in chat(BODY, (Said(turn=0, text="", calls=("ls()",)),))] == [
        "user",
        "assistant",
    ]


def test_positional_arguments_get_the_names_of_their_parameters():
    assert function_of("mv('a', destination='b')", FILES) == (
        "mv",
        '{"source": "a", "destination": "b"}',
    )


def test_every_reference_of_the_benchmark_can_be_written_as_tool_calls():
    bodies = [tool_task(task) for task in load_tasks()]
    calls = [
        (call, body.classes) for body in bodies for turn in body.turns for call in turn.reference
    ]
    assert len(calls) > 1000
    assert not [call for call, classes in calls if function_of(call, classes) is None]


def test_tools_are_withheld_until_a_turn_reveals_them():
    bodies = (tool_task(task) for task in load_tasks(("miss_func",)))
    body = next(body for body in bodies if body.withheld)
    number = next(n for n, turn in enumerate(body.turns) if turn.revealed)
    names = {tool["function"]["name"] for tool in json.loads(tools_json(body))}
    assert names
    assert not names.intersection(body.withheld)
    asked = [message.content for message in reference(body) if message.role == "user"]
    told, _, words = asked[number].partition("\n")
    assert {tool["function"]["name"] for tool in json.loads(told)} == set(body.withheld)
    assert words == body.turns[number].instruction or words == REVEALED


def test_a_task_of_the_grammar_comes_with_its_answers():
    body = tool_task(uniform_task(0, 3))
    messages = reference(body)
    answers = [message.content for message in messages if message.role == "tool"]
    assert answers == [result for turn in body.turns for result in turn.results]

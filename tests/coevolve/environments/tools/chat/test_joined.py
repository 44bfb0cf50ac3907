"""Which calls of a reference one message makes."""

import pytest

from coevolve.environments.tools.chat.joined import joined
from coevolve.environments.tools.task import ToolTurn

CLASSES = ("GorillaFileSystem",)

READ, MOVE = "cat(file_name='a.txt')", "mv(source='a.txt', destination='old')"
COUNT = "tail(file_name='a.txt', lines=3)"


def messages(instruction: str, played: dict[str, str], read: str = "") -> list[list[str]]:
    turn = ToolTurn(
        instruction=instruction, reference=tuple(played), results=tuple(played.values())
    )
    found = list(joined(turn, CLASSES, read + instruction))
    assert [result for _, results in found for result in results] == list(played.values())
    return [list(calls) for calls, _ in found]


def test_calls_whose_values_the_user_says_are_made_at_once():
    played = {READ: "x", MOVE: "ok", COUNT: "y"}
    assert messages("Show a.txt, move it to OLD, then its last 3 lines.", played) == [[*played]]


@pytest.mark.parametrize(
    ("instruction", "read"),
    [
        ("What is in it, and move it where it says.", "It is a.txt.\n"),
        ("Show a.txt; put it there.", ""),
    ],
)
def test_a_value_that_only_an_answer_says_waits_for_it(instruction: str, read: str):
    assert messages(instruction, {READ: "goes to old", MOVE: "ok"}, read) == [[READ], [MOVE]]


def test_a_value_that_nothing_says_waits_for_what_it_may_be_made_of():
    assert messages("The last lines of a.txt, one for each word.", {READ: "a b c", COUNT: "y"}) == [
        [READ],
        [COUNT],
    ]


def test_what_an_answer_said_in_an_earlier_message_is_known():
    played = {READ: "goes to old", MOVE: "ok", "mkdir(dir_name='old')": "ok"}
    assert messages("Show a.txt and do that.", played) == [
        [READ],
        [MOVE, "mkdir(dir_name='old')"],
    ]


def test_flags_and_calls_without_values_need_no_answer():
    played = {"pwd()": "/", "ls(a=True)": "a.txt"}
    assert messages("Where am I, and what is here?", played) == [[*played]]
    assert messages("Nothing.", {}) == []

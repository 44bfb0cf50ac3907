"""What gates and instances read in a reference of code, without executing it."""

import ast

import pytest

from coevolve.environments.appworld.gates.likeness import code_likeness
from coevolve.environments.appworld.gates.literals import (
    all_values,
    answers,
    is_given,
    is_known,
    printing,
    told_literals,
)
from coevolve.environments.appworld.gates.wording import invented, told_answer, unanswered
from coevolve.environments.appworld.instances import names_in_code, with_names
from coevolve.environments.tools.gates.similarity import Likenesses
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.tasks import body_of

WORK = (
    "held = pages(apis.spotify.show_playlist_library, page_limit=20, access_token=token)\n"
    "(playlist,) = [p for p in held if p['title'] == 'Rain']",
    "minute += 45\n"
    'later = f"{minute // 60:02d} o\'clock"\n'
    "day = now.strftime('%Y-%m-%d')\n"
    "apis.phone.update_alarm(alarm_id=4711, time=later, enabled=False, label='', volume=0)",
    "apis.supervisor.complete_task(answer=len(held))",
)


def test_only_literals_that_carry_knowledge_have_to_be_said():
    found = [(each.value, each.formatted) for each in told_literals(WORK)]
    assert found == [("Rain", False), (" o'clock", True), (4711, False)]


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("Rain", True),
        (21, True),
        ("twenty-one", False),
        ("low", True),
        ("2024-05-18", True),
        ("lo", False),
        (4711, False),
        (20, False),
    ],
)
def test_a_value_is_known_if_it_is_said_or_documented(value: str | int, known: bool):
    said = "Put 21 songs on my playlist Rain by May 18, 2024."
    assert is_known(value, said, "priority: one of 'low', 'high'; at most 20") == known


def test_answers_are_found_and_can_be_printed_instead():
    assert [ast.unparse(each) for each in answers(WORK)] == ["len(held)"]
    assert not answers(("apis.supervisor.complete_task()",))
    assert not answers(("apis.supervisor.complete_task(answer=None)",))
    (given,) = answers(("apis.supervisor.complete_task(answer=3 + 4)",))
    assert is_given(given)
    assert not is_given(answers(WORK)[0])
    assert printing(WORK)[-1] == "print('', len(held))"


@pytest.mark.parametrize(
    ("instruction", "found"),
    [
        ("Move alarm 4711 by 45 minutes to my playlist 'Rain'.", ""),
        ("Call it 'Snow'.", "no code uses 'Snow'"),
        ("Wait 30 minutes.", "no code uses 30"),
    ],
)
def test_what_an_instruction_names_has_to_be_in_the_code(instruction: str, found: str):
    assert invented(instruction, all_values(WORK)) == found


def test_an_answer_is_given_exactly_if_it_is_asked_for_and_not_said():
    assert unanswered("How many songs are there?", answers=False)
    assert not unanswered("How many songs are there?", answers=True)
    assert unanswered("Delete all of my alarms.", answers=True)
    assert not unanswered("Which lamp costs least? Put it on my wish list.", answers=False)
    assert told_answer("The note is called Today: what is its title?", "Today")
    assert not told_answer("What is the title of my note?", "Today")


def task(instruction: str, *code: str, world: str = '{"task": "a"}') -> ToolTask:
    turn = ToolTurn(instruction=instruction, reference=code)
    return ToolTask(classes=("appworld",), world=world, turns=(turn,), extra='{"now": "Rain"}')


def test_the_same_words_or_the_same_work_in_the_same_world_are_near_duplicates():
    index = Likenesses(0.8, code_likeness)
    index.add("one", body_of(task("Note down 'Pay rent' under 'Today' please.", *WORK)))
    words = body_of(task("note down 'Pay rent' under 'Today', please", "x = 1", world="{}"))
    assert index.nearest(words)
    assert index.overlapping(words)
    assert index.nearest(body_of(task("What else?", *WORK)))
    assert not index.nearest(body_of(task("What else?", *WORK, world="{}")))
    assert not index.overlapping(body_of(task("What else?", *WORK)))


@pytest.mark.parametrize(
    ("asked", "leaks"),
    [
        ("{} Thank you so much, you are a great help and I owe you a coffee.", True),
        ("Sorry to bother you again with this kind of thing, dear assistant: {} Cheers!", True),
        ("Hi, I hope that your day is going well, mine is quite busy, as usual. So: {}", True),
        ("Note down 'Pay rent' under 'Later', thank you so much for all of your help.", False),
    ],
)
def test_a_held_out_request_is_found_whatever_is_said_around_it(asked: str, leaks: bool):
    index, given = Likenesses(0.8, code_likeness), "Note down 'Pay rent' under 'Today'."
    index.add("one", body_of(task(given, *WORK)))
    index.add("short", body_of(task("Thank you.", *WORK)))
    said = body_of(task(asked.format(given), "x = 1", world="{}"))
    assert bool(index.overlapping(said)) == leaks


def test_an_instance_has_other_names_in_instruction_and_code_and_the_same_world():
    body = task("Empty my playlist 'Rain'.", *WORK)
    assert names_in_code(body) == {"Rain": "title"}
    other = with_names(body, {"Rain": "Snow"})
    assert other.turns[0].instruction == "Empty my playlist 'Snow'."
    assert "== 'Snow'" in other.turns[0].reference[0]
    assert "Rain" not in "".join(other.turns[0].reference)
    assert (other.world, other.extra) == (body.world, body.extra)

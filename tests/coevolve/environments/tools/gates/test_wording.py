import pytest

from coevolve.environments.tools.gates.reading import read_call, tools_of
from coevolve.environments.tools.gates.wording import unsaid, unused
from coevolve.environments.tools.task import ToolTurn
from tests.planted import said

TOOLS = tools_of(("GorillaFileSystem", "TicketAPI", "VehicleControlAPI", "TwitterAPI"))


def missing(*turns: ToolTurn, answers: tuple[tuple[str, ...], ...] = ()) -> str:
    read = [[read_call(call, TOOLS) for call in turn.reference] for turn in turns]
    seen = answers or [["None"] * len(calls) for calls in read]
    return next((each.text() for each in unsaid(turns, read, seen, TOOLS)), "")


def made_up(*turns: ToolTurn) -> str:
    read = [[read_call(call, TOOLS) for call in turn.reference] for turn in turns]
    return next((each.text() for each in unused(turns, read)), "")


@pytest.mark.parametrize(
    ("instruction", "call"),
    [
        ("Read 'a.txt'.", "cat(file_name='a.txt')"),
        ("Please read a.txt.", "cat('a.txt')"),
        ("Show the last two lines of a.txt", "tail(file_name='a.txt', lines=2)"),
        ("The 3rd priority for ticket 1,200", "edit_ticket(1200, {'priority': 3})"),
        ("Count the lines of 'a.txt'", "wc(file_name='a.txt', mode='l')"),
        ("List everything", "ls(a=True)"),
        ("What is below?", "find(path='.', name='None')"),
        ("Start the engine", "startEngine(ignitionMode='START')"),
        ("Set it to 21.5 degrees", "adjustClimateControl(temperature=21.5, fanSpeed=50)"),
        ("Post 'hi' with the tag fun", "post_tweet(content='hi', tags=['#fun'])"),
        ("Look into docs/old for x.md", "find(path='docs/old', name='x.md')"),
        ("Write 'Don't stop' into a.txt", "echo(content=\"Don't stop\", file_name='a.txt')"),
        ("Post US and then 914881 as one word", "post_tweet(content='US914881')"),
        ("Post the last day of October 2026", "post_tweet(content='2026-10-31')"),
    ],
)
def test_a_value_given_in_any_form_is_not_missing(instruction: str, call: str) -> None:
    assert missing(said(instruction, call)) == ""


@pytest.mark.parametrize(
    ("instruction", "call", "found"),
    [
        ("Read it.", "cat(file_name='a.txt')", "turn 1 does not say file_name='a.txt'"),
        ("Read 'aa.txt'.", "cat('a.txt')", "turn 1 does not say file_name='a.txt'"),
        ("Read 'a.txt.old'.", "cat('a.txt')", "turn 1 does not say file_name='a.txt'"),
        ("The last lines of a.txt", "tail('a.txt', 2)", "turn 1 does not say lines=2"),
        ("The last 22 lines of a.txt", "tail('a.txt', 2)", "turn 1 does not say lines=2"),
        ("Post US and 91", "post_tweet('US914881')", "turn 1 does not say content='US914881'"),
        ("October 2026", "post_tweet('2026-10-31')", "turn 1 does not say content='2026-10-31'"),
        ("Tag it: fun", "post_tweet('fun', ['#fun', '#joy'])", "turn 1 does not say tags='#joy'"),
    ],
)
def test_a_value_that_no_text_gives_is_missing(instruction: str, call: str, found: str) -> None:
    assert missing(said(instruction, call)) == found


def test_earlier_instructions_and_answers_need_no_repetition() -> None:
    first = said("Find 'x.md'.", "find(name='x.md')")
    second = said("Delete it.", "cd('docs')", "rm('x.md')")
    answers = ('{"matches": ["./docs/x.md"]}',), ("{}", "{}")
    assert missing(first, second, answers=answers) == ""
    assert missing(first, second) == "turn 2 does not say folder='docs'"
    assert missing(second, first) == "turn 1 does not say folder='docs'"
    ticket = said("Close the ticket that you opened.", "resolve_ticket(17, 'x')")
    assert missing(ticket, answers=(('{"id": 17}',),)) == "turn 1 does not say ticket_id=17"
    opened = said("Open a ticket 'x'.", "create_ticket('x')")
    assert missing(opened, ticket, answers=(('{"id": 17}',), ("{}",))) == ""


def test_an_answer_is_read_without_its_escapes() -> None:
    first = said("Read 'a.txt'.", "cat('a.txt')")
    second = said("Write the same into 'b.txt'.", "echo('one\\ntwo \"x\"', 'b.txt')")
    answers = ('{"file_content": "one\\ntwo \\"x\\""}',), ("None",)
    assert missing(first, second, answers=answers) == ""


@pytest.mark.parametrize(
    ("instruction", "call", "found"),
    [
        ("Read 'a.txt'.", "cat('a.txt')", ""),
        ("Read 'b.txt'.", "cat('a.txt')", "'b.txt'"),
        ("Read 'a.txt' or 'b.txt'.", "cat('a.txt')", "'b.txt'"),
        ('Read "b.txt".', "cat('a.txt')", "'b.txt'"),
        ("Read `b.txt`.", "cat('a.txt')", "'b.txt'"),
        ("Read \u2018b.txt\u2019.", "cat('a.txt')", "'b.txt'"),
        ("Don't read the user's a.txt, that's all.", "cat('a.txt')", ""),
        ("Write 'a b!' there.", "echo('a b', 'a.txt')", ""),
        ("Look in 'docs/old'.", "find('docs', 'old')", ""),
        ("The last 3 lines of 'a.txt', 4 at most", "tail('a.txt', 3)", "4"),
        ("The last 3 lines of report_2024.txt", "tail('report_2024.txt', 3)", ""),
        ("Read the 3 lines of 'a.txt'", "cat('a.txt')", ""),
        ("Priority 2 for 'Project 7'", "create_ticket('Project 7', '', 2)", ""),
    ],
)
def test_a_value_that_no_call_uses_is_invented(instruction: str, call: str, found: str) -> None:
    told = made_up(said(instruction, call))
    assert told == (f"turn 1 speaks of {found}, which no call takes" if found else "")

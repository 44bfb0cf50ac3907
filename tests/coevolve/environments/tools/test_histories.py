from collections.abc import Sequence

from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Command,
    Grade,
    Observed,
    Passed,
    Ready,
    Release,
    Reply,
    Reset,
    Trial,
    Tried,
)
from coevolve.environments.tools.endings import OUT_OF_MEMORY, OUT_OF_TIME
from coevolve.environments.tools.histories import Histories
from coevolve.environments.tools.session import CALL_CHARS
from coevolve.environments.tools.task import ToolTask

TASK = ToolTask(classes=(), world="{}", turns=())
FINE = Observed(result="None", failed=False)


def reset(name: str) -> Reset:
    return Reset(session=name, task=TASK)


def act(name: str, text: str = "ls()") -> Act:
    return Act(session=name, text=text)


def opened(histories: Histories, *names: str) -> Histories:
    histories.record([reset(name) for name in names], [Ready()] * len(names))
    return histories


def carried_out(histories: Histories, *pairs: tuple[Command, Reply]) -> None:
    histories.record([command for command, _ in pairs], [reply for _, reply in pairs])


def sessions(commands: Sequence[Command]) -> list[str]:
    return [command.session for command in commands]


def test_open_sessions_are_replayed_with_their_commands() -> None:
    histories = opened(Histories(), "x", "y")
    grade = Grade(session="x")
    trial = Trial(session="x", task=TASK, turns=())
    carried_out(histories, (act("x"), FINE), (trial, Tried(initial="", turns=())))
    carried_out(histories, (grade, Passed()), (act("unknown"), Broken(reason="not open")))
    assert histories.replay() == [reset("y"), reset("x"), act("x"), grade]
    carried_out(histories, (Release(session="x"), Ready()))
    assert histories.replay() == [reset("y")]
    carried_out(histories, (act("y"), Broken(reason="lost")))
    assert histories.replay() == []


def test_an_ended_session_is_not_replayed_and_answers_with_its_ending() -> None:
    for ending in (OUT_OF_TIME, OUT_OF_MEMORY):
        for last in ((act("x"), ending.answer), (Grade(session="x"), ending.verdict)):
            histories = opened(Histories(), "x", "y")
            carried_out(histories, (act("x"), FINE), last)
            assert histories.replay() == [reset("y")]
            asked = [act("y"), act("x"), Grade(session="x"), reset("x"), act("x")]
            assert histories.answered(asked, ()) == {1: ending.answer, 2: ending.verdict}
            opened(histories, "x")
            assert histories.answered([act("x")], ()) == {}


def test_the_session_that_was_idle_longest_is_forgotten_first() -> None:
    histories = opened(Histories(max_sessions=3), "a", "b", "c")
    carried_out(histories, (act("a"), FINE))
    opened(histories, "d")
    assert sessions(histories.replay()) == ["c", "a", "a", "d"]


def test_the_session_with_the_longest_history_ends_when_all_together_are_too_long() -> None:
    histories = opened(Histories(max_told_chars=1000 + 3 * CALL_CHARS), "small", "large", "last")
    carried_out(histories, (act("large", "x" * 600), FINE), (act("small", "x" * 300), FINE))
    assert histories.answered([act("large")], ()) == {}
    carried_out(histories, (act("last", "x" * 200), FINE))
    assert histories.answered([act("large"), act("small"), act("last")], ()) == {
        0: OUT_OF_MEMORY.answer
    }
    assert sessions(histories.replay()) == ["small", "small", "last", "last"]
    carried_out(histories, (act("last", "x" * 200), FINE), (act("small", "x" * 100), FINE))
    assert histories.answered([act("small"), act("last")], ()) == {}
    for name in ("small", "last"):
        carried_out(histories, (Release(session=name), Ready()))
    carried_out(opened(histories, "new"), (act("new", "x" * 1200), FINE))
    assert histories.answered([act("new")], ()) == {}

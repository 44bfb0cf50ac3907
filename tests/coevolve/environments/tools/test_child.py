import time

import pytest

from coevolve.environments.tools import child
from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Failed,
    Grade,
    Observed,
    Passed,
    Reset,
    Trial,
    Tried,
)
from coevolve.environments.tools.endings import COMMAND_CPU_S, OUT_OF_MEMORY, OUT_OF_TIME
from coevolve.environments.tools.place import Place
from coevolve.environments.tools.session import Session, World
from coevolve.environments.tools.task import ToolTask, ToolTurn

BODY = ToolTask(
    classes=("GorillaFileSystem", "MathAPI"),
    world='{"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}}',
    turns=(
        ToolTurn(instruction="make a", reference=("touch(file_name='a')",)),
        ToolTurn(instruction="list", reference=("ls()",)),
    ),
)


@pytest.fixture(autouse=True)
def no_hard_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the hard limit off: it counts the CPU time of all threads and would end this process."""
    monkeypatch.setattr(child, "_allow_cpu", lambda more_s: None)


def reset(session: str) -> Reset:
    return Reset(session=session, task=BODY)


def act(session: str, text: str) -> Act:
    return Act(session=session, text=text)


def grade(session: str) -> Grade:
    return Grade(session=session)


def test_a_refusal_of_the_sandbox_breaks_the_session_and_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> Observed:
        raise child.HostReachedError("open")

    def reach(session: Session, text: str) -> Observed:
        try:
            return refused()
        except Exception as error:  # noqa: BLE001 -- as simulators do
            return Observed(result=str(error), failed=True)

    monkeypatch.setattr(Session, "act", reach)
    sessions = child.Sessions(lambda: 0.0, Place(-1))
    sessions.carry_out(reset("x"))
    reply = sessions.carry_out(act("x", "ls()"))
    assert reply == Broken(reason="the simulator reached for the host: open")
    assert sessions.carry_out(grade("x")) == reply


@pytest.mark.parametrize(("used", "kind"), [(0.2, Failed), (0.8, Broken)])
def test_a_session_that_meets_low_memory_does_not_end_for_it(
    monkeypatch: pytest.MonkeyPatch, used: float, kind: type
) -> None:
    def exhaust(world: World, text: str) -> Observed:
        raise MemoryError

    monkeypatch.setattr(World, "call", exhaust)
    sessions = child.Sessions(lambda: used, Place(-1))
    sessions.carry_out(reset("x"))
    sessions.carry_out(act("x", "ls()"))
    assert isinstance(sessions.carry_out(grade("x")), kind)


def test_the_session_that_grew_most_ends_when_memory_is_short() -> None:
    used = [0.5]
    sessions = child.Sessions(lambda: used[0], Place(-1))
    for name in ("small", "large"):
        sessions.carry_out(reset(name))
        sessions.carry_out(act(name, "touch(file_name='a')"))
    for number in range(child.LEAST_GROWN // 19_000 + 1):
        sessions.carry_out(act("large", f"touch(file_name='{number}')"))
        sessions.carry_out(act("large", f"echo('{19_000 * 'x'}', file_name='{number}')"))
    used[0] = 0.8
    assert isinstance(sessions.carry_out(act("small", "ls()")), Observed)
    assert sessions.carry_out(grade("large")) == OUT_OF_MEMORY.verdict
    used[0] = 0.9
    sessions.carry_out(act("small", "ls()"))
    assert sessions.carry_out(grade("small")) == Passed()


def spin(world: World, text: str) -> Observed:
    while True:
        pass


def test_a_step_without_end_is_interrupted_and_ends_its_session_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions = child.Sessions(lambda: 0.0, Place(-1))
    call = World.call
    sessions.carry_out(reset("x"))
    sessions.carry_out(reset("y"))
    monkeypatch.setattr(World, "call", spin)
    assert sessions.carry_out(act("x", "ls()")) == OUT_OF_TIME.answer
    monkeypatch.setattr(World, "call", call)
    assert sessions.carry_out(act("x", "ls()")) == OUT_OF_TIME.answer
    assert sessions.carry_out(grade("x")) == OUT_OF_TIME.verdict
    assert sessions.carry_out(act("y", "touch('a')")) == Observed(result="None", failed=False)
    assert sessions.carry_out(grade("y")) == Passed()


def test_a_trial_has_the_time_of_its_steps_and_answers_as_a_session_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = World.call

    def slow(world: World, text: str) -> Observed:
        end = time.thread_time() + (0.6 * COMMAND_CPU_S if text != "pwd()" else 9.0)
        while time.thread_time() < end:
            pass
        return call(world, text)

    monkeypatch.setattr(World, "call", slow)
    turns = (("touch('a')", "ls()", "ls()"), ("ls()", "pwd()", "ls()"))
    sessions = child.Sessions(lambda: 0.0, Place(-1))
    sessions.carry_out(reset("x"))
    acted = [
        [*(sessions.carry_out(act("x", text)) for text in calls), sessions.carry_out(grade("x"))]
        for calls in turns
    ]
    tried = sessions.carry_out(Trial(session="t", task=BODY, turns=turns))
    assert isinstance(tried, Tried)
    assert [[*turn.observed, turn.verdict] for turn in tried.turns] == acted
    assert [turn.verdict for turn in tried.turns] == [Passed(), OUT_OF_TIME.verdict]
    assert tried.turns[1].observed[1:] == (OUT_OF_TIME.answer,) * 2

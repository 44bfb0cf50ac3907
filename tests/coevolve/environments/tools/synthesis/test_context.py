"""Which candidates practise what a brief is about."""

import msgspec
import pytest

from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from protocols.evolution import SKILL, OnPattern, OnTask
from protocols.rollouts import Action
from protocols.synthesis import Anything, Attempt, Brief
from protocols.tasks import NOTHING, Task, body_of
from tests.scripted import CONFIG, task, told


def body(*turns: tuple[str, ...]) -> ToolTask:
    made = tuple(ToolTurn(instruction="", reference=calls) for calls in turns)
    return msgspec.structs.replace(read_body(task().body), turns=made)


FLAGGED: Task = msgspec.structs.replace(
    task(), body=body_of(body(("ls()",), ("mkdir('d')", "mv('a', 'd')")))
)


def brief(about: OnTask | OnPattern | Anything, *calls: str) -> Brief:
    """Return a brief with an attempt that passes the first turn and fails in the second."""
    actions = tuple(Action(turn=1, text=call, result="", failed=False) for call in calls)
    attempt = Attempt(actions=actions, succeeded=False, turns_passed=1, ended="failed")
    return Brief(
        signal_id="s",
        kind="forgetting",
        about=about,
        attempts=(attempt,),
        steps=4,
        seed=0,
        policy_version=0,
    )


@pytest.mark.parametrize(
    ("tried", "made", "practises"),
    [
        (["mkdir('d')", "cp('a', 'd')"], [("cd('x')", "cp('a', 'b')")], False),
        (["mkdir('d')", "cp('a', 'd')"], [("mkdir('x')",)], False),
        (["mkdir('d')", "cp('a', 'd')"], [("ls()",), ("mv('a', 'b')",)], True),
        (["mkdir('d')", "mv('b', 'd')"], [("mkdir('x')",)], True),
        (["mkdir('d')", "mv('b', 'd')"], [("ls()",)], False),
    ],
)
def test_of_a_task_it_calls_a_tool_that_failed_attempts_lack(
    tried: list[str], made: list[tuple[str, ...]], practises: bool
):
    asked = brief(OnTask(task_id="t"), *tried)
    assert told(CONFIG).practises(asked, FLAGGED, body_of(body(*made))) == practises


def test_a_pattern_leaves_nothing_out_because_a_task_may_do_without_the_tool():
    single = OnPattern(kind="tool", pattern="mv")
    assert told(CONFIG).practises(brief(single), None, body_of(body((), ("cp('a', 'b')",))))


def test_without_a_subject_or_a_readable_body_nothing_is_left_out():
    context = told(CONFIG)
    assert context.practises(brief(Anything()), None, body_of(body(("ls()",))))
    assert context.practises(brief(OnTask(task_id="t")), FLAGGED, NOTHING)


@pytest.mark.parametrize(
    ("about", "made", "practises"),
    [
        (OnPattern(kind=SKILL, pattern="mkdir+mv"), [("mv('a', 'd')",)], True),
        (OnPattern(kind=SKILL, pattern="mkdir+mv"), [("mkdir('d')", "mv('a', 'd')")], True),
        (OnPattern(kind=SKILL, pattern="mkdir+mv"), [("ls()",)], False),
        (OnPattern(kind=SKILL, pattern="mkdir+mv"), [("mkdir('d')",), ("mv('a', 'd')",)], False),
        (OnTask(task_id="t"), [("mv('a', 'b')",)], True),
        (OnTask(task_id="t"), [("ls()",)], False),
        (Anything(), [("ls()",), ("ls()",)], True),
    ],
)
def test_of_what_was_never_solved_it_practises_a_part_in_one_turn(
    about: OnTask | OnPattern | Anything, made: list[tuple[str, ...]], practises: bool
):
    asked = msgspec.structs.replace(brief(about, "mkdir('d')"), kind="unsolved")
    flagged = FLAGGED if isinstance(about, OnTask) else None
    assert told(CONFIG).practises(asked, flagged, body_of(body(*made))) == practises

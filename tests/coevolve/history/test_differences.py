"""Where rollouts leave the reference, and which tasks are suspect."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.tools.task import read_body
from coevolve.history.differences import Suspect, difference, suspects
from coevolve.history.lineage import LineageIndex
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.validation.wordings import Wording
from protocols.evolution import GroupSummary
from protocols.journal import Message
from protocols.rollouts import Action, Rollout
from protocols.tasks import Task, TaskText, TurnText, body_of
from tests import evolving
from tests.coevolve.history.test_rollouts import rollout

TEXT = TaskText(
    headline="two turns",
    turns=(
        TurnText(instruction="List.", calls=("ls()",)),
        TurnText(instruction="Copy.", calls=("cp(source='a', destination='b')", "ls()")),
    ),
)
Calls = Sequence[tuple[int, str]]


def attempt(summary: GroupSummary, index: int, *calls: tuple[int, str], passed: int = 1) -> Rollout:
    """Return a rollout of two turns with these calls, each by its turn; no call fails."""
    return msgspec.structs.replace(
        rollout(summary, index, "ls()"),
        actions=tuple(Action(turn=n, text=t, result="", failed=False) for n, t in calls),
        turns_passed=passed,
        turns_total=2,
    )


SUMMARY = evolving.visit("seed-1", 0, version=3)


@pytest.mark.parametrize(
    ("calls", "passed", "words"),
    [
        (
            [(0, "ls()"), (1, "mv(source='a', destination='b')")],
            1,
            "Turn 2 of 2 failed: the reference calls cp(source='a', destination='b'), this rollout "
            "called mv(source='a', destination='b').",
        ),
        ([], 0, "Turn 1 of 2 failed: the reference calls ls(), this rollout made no further call."),
        (
            [(0, "ls()"), (0, "pwd()")],
            0,
            "Turn 1 of 2 failed: the reference makes no further call, this rollout called pwd().",
        ),
        (
            [(1, 'cp( source="a", destination="b" )'), (1, "ls()")],
            1,
            "Turn 2 of 2 failed, though its calls are those of the reference.",
        ),
    ],
)
def test_a_failed_rollout_says_which_call_was_expected_and_which_came(
    calls: Calls, passed: int, words: str
):
    found = difference(TEXT, attempt(SUMMARY, 0, *calls, passed=passed))
    assert found is not None
    assert found.sentence == words


def test_what_has_no_reference_of_its_own_has_no_difference():
    made = attempt(SUMMARY, 0, (1, "pwd()"))
    assert difference(TEXT, msgspec.structs.replace(made, turns_passed=2)) is None
    assert difference(TEXT, msgspec.structs.replace(made, instance=1)) is None
    assert difference(TaskText(headline="no conversation"), made) is None


def worded(body: msgspec.Raw) -> Sequence[Wording]:
    """Return a wording whose meaning is the body's first reference."""
    turn = read_body(body).turns[0]
    return (Wording(turn.instruction, turn.reference[0], 0),)


async def found_in(folder: Path, *messages: Message) -> dict[str, Suspect]:
    journal = Journal.open(folder)
    evolving.write(journal, [evolving.seed(), *messages])
    index = LineageIndex()
    for each in (evolving.seed(), *messages):
        index.fold(each)
    histories = [index.history(task_id) for task_id in index.tasks]

    def describe(task: Task) -> TaskText:
        return TEXT

    found = await suspects(LocalStore(journal), histories, describe, worded)
    journal.close()
    return dict(found)


async def test_a_task_is_suspect_if_nothing_solves_it_and_all_rollouts_agree(tmp_path: Path):
    agreed = [attempt(SUMMARY, index, (1, "mv('a', 'b')")) for index in range(8)]
    found = await found_in(tmp_path, evolving.visit("seed-1", 0), *agreed, SUMMARY)
    expected = Suspect(
        task_id="seed-1",
        by="rollouts",
        successes=0,
        attempts=16,
        turn=2,
        turns=2,
        reference="cp(source='a', destination='b')",
        otherwise="mv('a', 'b')",
        why=(
            "Nothing solved it, and the newest 8 rollouts agree on another call than the reference."
        ),
    )
    assert found == {"seed-1": expected}


async def test_a_task_is_no_suspect_for_less(tmp_path: Path):
    call = (1, "mv('a', 'b')")
    agreed = [attempt(SUMMARY, index, call) for index in range(8)]
    solved = evolving.visit("seed-1", 1)
    refused = [
        msgspec.structs.replace(
            each, actions=(Action(turn=1, text=call[1], result="error", failed=True),)
        )
        for each in agreed
    ]
    other = [*agreed[:7], attempt(SUMMARY, 7, (1, "pwd()"))]
    few = evolving.visit("seed-1", 0, version=3, rollouts=3)
    cases = (
        [solved, *agreed, SUMMARY],
        [*refused, SUMMARY],
        [*other, SUMMARY],
        [*agreed[:3], few],
        [*agreed[:7], SUMMARY],  # the journal has dropped one
    )
    for number, messages in enumerate(cases):
        assert await found_in(tmp_path / str(number), *messages) == {}, number


async def test_a_made_task_is_suspect_if_other_tasks_use_its_wording_for_other_work(tmp_path: Path):
    body = read_body(evolving.BODY)
    first, *others = body.turns
    turn = msgspec.structs.replace(first, reference=("sort(file_name='a')",))
    wrong = msgspec.structs.replace(
        evolving.made("wrong", "c1", "s"),
        body=body_of(msgspec.structs.replace(body, turns=(turn, *others))),
    )
    right = evolving.made("right", "c2", "s")
    found = await found_in(tmp_path, wrong, right, evolving.visit("wrong", 4))
    assert found == {
        "wrong": Suspect(
            task_id="wrong",
            by="wording",
            successes=4,
            attempts=8,
            turn=1,
            turns=2,
            reference="sort(file_name='a')",
            otherwise=first.reference[0],
            why="Its wording stands for other work in 1 of the run's own tasks.",
        )
    }

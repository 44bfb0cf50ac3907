import asyncio
import json
import os
import signal
import threading
from collections.abc import Sequence

import pytest

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Failed,
    Grade,
    Observed,
    Passed,
    Ready,
    Reset,
    Trial,
    Tried,
)
from coevolve.environments.tools.endings import OUT_OF_MEMORY
from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.session import World
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from coevolve.environments.tools.trial import TrialRun
from coevolve.environments.tools.worker import ToolWorker
from protocols.errors import SimulatorError
from protocols.tasks import Task
from tests.simulated import InProcessSimulator

WORLD = json.dumps(
    {
        "GorillaFileSystem": {
            "root": {
                "home": {
                    "type": "directory",
                    "contents": {
                        "a.txt": {"type": "file", "content": "one"},
                        "d": {
                            "type": "directory",
                            "contents": {"b.txt": {"type": "file", "content": "two"}},
                        },
                    },
                }
            }
        }
    }
)
BODY = ToolTask(
    classes=("GorillaFileSystem",),
    world=WORLD,
    turns=(
        ToolTurn(instruction="make c", reference=("touch(file_name='c')",)),
        ToolTurn(instruction="go", reference=("cd(folder='d')", "ls()")),
    ),
)
REFERENCE = tuple(turn.reference for turn in BODY.turns)


def trial(turns: Sequence[Sequence[str]] = REFERENCE, body: ToolTask = BODY) -> Trial:
    return Trial(session="t", task=body, turns=tuple(map(tuple, turns)))


def state(*calls: str) -> str:
    world = World(BODY)
    for call in calls:
        assert not world.call(call).failed, call
    return world.digest()


def referenced(task: Task) -> Trial:
    return trial([turn.reference for turn in read_body(task.body).turns], read_body(task.body))


def endless_tree() -> list[str]:
    """Return calls that build a tree whose search would take too long."""
    calls = ["mkdir(dir_name='x')"]
    for _ in range(26):  # each round doubles the paths through the tree, not the tree
        calls += [
            *(f"mkdir(dir_name='{name}')" for name in "mno"),
            *(f"cp(source='x', destination='{name}')" for name in "mn"),
            *(f"mv(source='{name}', destination='o')" for name in "mn"),
            "rm(file_name='x')",
            "mv(source='o', destination='x')",
        ]
    return calls


async def test_a_trial_answers_and_judges_every_turn(worker: ToolWorker) -> None:
    (tried,) = await worker.execute([trial()])
    assert isinstance(tried, Tried)
    assert [turn.verdict for turn in tried.turns] == [Passed(), Passed()]
    assert [each.result for each in tried.turns[1].observed] == [
        '{"current_working_directory": "d"}',
        '{"current_directory_content": ["b.txt"]}',
    ]
    assert len({tried.initial, *(turn.state for turn in tried.turns)}) == 3
    (wrong,) = await worker.execute([trial([["touch(file_name='e')"], ["ls()", "no call"]])])
    assert isinstance(wrong, Tried)
    assert wrong.initial == tried.initial
    assert all(isinstance(turn.verdict, Failed) for turn in wrong.turns)
    assert [each.failed for each in wrong.turns[1].observed] == [False, True]


async def test_a_trial_neither_opens_nor_touches_a_session(worker: ToolWorker) -> None:
    command = Trial(session="x", task=BODY, turns=REFERENCE)
    before = Reset(session="x", task=BODY)
    replies = await worker.execute(
        [before, Act(session="x", text="touch(file_name='c')"), command, Grade(session="x")]
    )
    assert [type(reply) for reply in replies] == [Ready, Observed, Tried, Passed]
    broken = Trial(session="x", task=BODY, turns=REFERENCE * 2)
    replies = await worker.execute([broken, Act(session="x", text="ls()")])
    assert replies[0] == Broken(reason="all 2 turns of the session have been graded already")
    assert isinstance(replies[1], Observed)
    replies = await worker.execute(
        [Trial(session="y", task=BODY, turns=REFERENCE), Act(session="y", text="ls()")]
    )
    assert isinstance(replies[1], Broken)


async def test_trials_in_two_processes_reach_the_same_states(worker: ToolWorker) -> None:
    tasks = [*load_tasks(["base"])[::10], *load_tasks(["long_context"])[5::40]]
    tasks += [uniform_task(3, number) for number in range(20)]
    assert len({name for task in tasks for name in read_body(task.body).classes}) == 8
    commands = [referenced(task) for task in tasks]
    here = [TrialRun(each.task, each.turns).play() for each in commands]
    assert list(await worker.execute(commands)) == here
    assert all(turn.state and turn.verdict == Passed() for tried in here for turn in tried.turns)


async def test_a_trial_with_an_exploding_world_is_cut_short_and_returns_the_earlier_turns(
    worker: ToolWorker,
) -> None:
    calls = [["touch(file_name='c')"], [*endless_tree(), "find(name='zzz')", "ls()"]]
    reset = Reset(session="y", task=BODY)
    tried, _, other = await worker.execute([trial(calls), reset, Act(session="y", text="ls()")])
    assert isinstance(tried, Tried)
    first, second = tried.turns
    assert (first.verdict, second.verdict) == (Passed(), OUT_OF_MEMORY.verdict)
    assert (bool(first.state), second.state) == (True, "")
    assert len(second.observed) == len(calls[1])
    ended = second.observed.index(OUT_OF_MEMORY.answer)
    assert ended > 50
    assert not any(each.failed for each in second.observed[:ended])
    assert set(second.observed[ended:]) == {OUT_OF_MEMORY.answer}
    assert isinstance(other, Observed)
    assert worker.restarts == 0


async def test_a_world_that_holds_itself_ends_the_trial_without_a_state(worker: ToolWorker) -> None:
    calls = (("cp(source='d', destination='d')",), ("ls()",))
    body = ToolTask(
        classes=BODY.classes,
        world=WORLD,
        turns=tuple(ToolTurn(instruction="do", reference=turn) for turn in calls),
    )
    (tried,) = await worker.execute([trial(calls, body)])
    assert isinstance(tried, Tried)
    assert tried.initial
    assert [turn.state for turn in tried.turns] == ["", ""]
    assert all(isinstance(turn.verdict, Failed) for turn in tried.turns)


async def test_a_trial_whose_child_is_killed_is_the_machine_s_fault(worker: ToolWorker) -> None:
    pool = SimulatorPool([worker])
    before = await pool.trial("t", BODY, REFERENCE)
    os.kill(worker.pid, signal.SIGSTOP)
    trials = [asyncio.create_task(pool.trial(f"t{n}", BODY, REFERENCE)) for n in range(3)]
    await asyncio.sleep(0.1)
    os.kill(worker.pid, signal.SIGKILL)
    lost = await asyncio.gather(*trials, return_exceptions=True)
    assert all(isinstance(each, SimulatorError) for each in lost)
    assert await pool.trial("t", BODY, REFERENCE) == before
    assert worker.restarts == 1


async def test_text_that_utf8_cannot_encode_breaks_no_trial(worker: ToolWorker) -> None:
    (tried,) = await worker.execute([trial([["touch(file_name='\ud800')"]])])
    assert isinstance(tried, Tried)


async def test_trials_in_this_process_are_those_of_a_worker(worker: ToolWorker) -> None:
    simulator = InProcessSimulator()
    assert [await simulator.trial("t", BODY, REFERENCE)] == list(await worker.execute([trial()]))
    with pytest.raises(SimulatorError, match="does not load"):
        await simulator.trial("t", ToolTask(classes=BODY.classes, world="{", turns=()), ())


def test_the_working_directory_belongs_to_the_state() -> None:
    assert state("cd(folder='d')") != state()
    assert state("cd(folder='d')", "cd(folder='..')") == state()
    assert state("cd(folder='d')", "ls()") == state("cd(folder='d')")


def test_the_order_in_which_a_folder_was_filled_does_not_count() -> None:
    one, other = "touch(file_name='x')", "touch(file_name='y')"
    assert state(one, other) == state(other, one)
    assert state(one) != state(other)


def test_a_file_s_name_content_and_place_count() -> None:
    states = {
        state(),
        state("mv(source='a.txt', destination='c.txt')"),
        state("mv(source='a.txt', destination='d')"),
        state("echo(content='two', file_name='a.txt')"),
        state("rm(file_name='a.txt')"),
    }
    assert len(states) == 5
    assert state("echo(content='one', file_name='a.txt')") == state()


def test_a_removed_working_directory_is_told_from_one_that_is_there() -> None:
    away = ("cd(folder='d')", "cd(folder='..')")
    assert state(*away) == state()
    world = World(BODY)
    system = world.instances["GorillaFileSystem"]
    inside = system.root.contents["d"]
    system._current_dir = inside
    there = world.digest()
    del system.root.contents["d"]
    gone = world.digest()
    system._current_dir = system.root
    assert len({there, gone, world.digest()}) == 3


def test_random_generators_belong_to_the_state() -> None:
    body = ToolTask(classes=("TravelAPI",), world="{}", turns=())
    world, other = World(body), World(body)
    assert world.digest() == other.digest()
    other.instances["TravelAPI"]._random.random()
    assert world.digest() != other.digest()


def test_numbers_count_by_value_and_kinds_are_kept_apart() -> None:
    world = World(ToolTask(classes=("MathAPI",), world="{}", turns=()))
    instance = world.instances["MathAPI"]

    def digest(value: object) -> str:
        instance.held = value
        return world.digest()

    assert digest(1) == digest(1.0) == digest(True)
    assert digest(10**400) == digest(10**400)
    kinds = [1, 2, 0.5, "1", None, [1], (1,), {1: 1}, {1}, [[1]], [], "", float("inf")]
    assert len({digest(value) for value in kinds}) == len(kinds)
    assert digest({"a": [1], "b": 2}) == digest({"b": 2, "a": [1]})
    holds_itself: list[object] = []
    holds_itself.append(holds_itself)
    assert digest(holds_itself) == ""
    with pytest.raises(SimulatorError, match=r"which cannot be compared; define state\(\)"):
        digest(threading.Lock())

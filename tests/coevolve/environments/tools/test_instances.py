"""Tests of instances: the same work under other names, decided by execution."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from coevolve.commands.fresh import Comparison, compared, table
from coevolve.config.load import load_config
from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.environments.tools.commands import Failed
from coevolve.environments.tools.filesystem.environment import Filesystem
from coevolve.environments.tools.instances import Instances, renamed
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from coevolve.environments.tools.trial import TrialRun
from coevolve.environments.tools.vocabulary import Vocabulary, named
from protocols.errors import ConfigError
from protocols.learning import TaskScore
from protocols.tasks import Task
from tests.simulated import InProcessSimulator

NOTE = ToolTask(
    classes=("GorillaFileSystem",),
    world='{"GorillaFileSystem":{"root":{"w":{"type":"directory","contents":{'
    '"my notes.txt":{"type":"file","content":"my notes.txt, notes"},'
    '"notes":{"type":"directory","contents":{}}}}}}}',
    turns=(
        ToolTurn(
            instruction="Move 'my notes.txt' into notes; noteses stay.",
            reference=("mv(source='my notes.txt', destination='notes')",),
        ),
    ),
)


def quickstart() -> Filesystem:
    return Filesystem(load_config("quickstart"))


@pytest.fixture(scope="module")
def tasks() -> Sequence[Task]:
    return quickstart().source().pool()[:40]


def instances_of(tasks: Sequence[Task], seed: int, pool: Sequence[Task] = ()) -> dict[str, Task]:
    """Return instances with the names of a pool, by default of the tasks themselves."""
    names = Vocabulary(map(tool_task, pool or tasks))
    return asyncio.run(Instances(InProcessSimulator(), names).of(tasks, seed))


def fails(body: ToolTask, calls: Sequence[Sequence[str]]) -> bool:
    tried = TrialRun(body, calls).play()
    return any(isinstance(turn.verdict, Failed) for turn in tried.turns)


def test_names_are_what_instruction_and_call_share():
    assert named(NOTE) == {"my notes.txt": "source", "notes": "destination"}


def test_a_name_is_replaced_wherever_it_stands_whole():
    other = renamed(NOTE, {"my notes.txt": "it's.txt", "notes": "old"})
    (turn,) = other.turns
    assert turn.instruction == "Move 'it's.txt' into old; noteses stay."
    assert turn.reference == ("mv(source=\"it's.txt\", destination='old')",)
    assert '"it\'s.txt":{"type":"file","content":"it\'s.txt, old"}' in other.world
    assert not fails(other, [turn.reference])


def test_a_name_of_several_words_takes_one_of_the_same_parameter():
    texts = ("Ms. Ito", "Mr. Khan")
    bodies = [renamed(NOTE, {"my notes.txt": text}) for text in texts]
    another = Vocabulary(bodies).another("Ms. Ito", "source", "Ms. Ito", np.random.default_rng(0))
    assert another == "Mr. Khan"


def test_an_instance_is_solved_by_its_own_calls_alone(tasks: Sequence[Task]):
    made = instances_of(tasks, 1)
    assert len(made) > len(tasks) / 2
    for task in tasks:
        body = tool_task(task)
        if task.task_id not in made:
            continue
        instance = made[task.task_id]
        other = tool_task(instance)
        assert instance.task_id == f"{task.task_id}~1"
        assert not fails(other, [turn.reference for turn in other.turns])
        assert fails(other, [turn.reference for turn in body.turns])
        assert all(len(turn.results) == len(turn.reference) for turn in other.turns)
        assert body.classes == other.classes
        assert body.world != other.world or not named(body)


def test_a_seed_determines_the_instances(tasks: Sequence[Task]):
    first = instances_of(tasks, 1)
    assert first == instances_of(tasks, 1)
    assert {tool_task(each) for each in first.values()} != {
        tool_task(each) for each in instances_of(tasks, 2).values()
    }


def test_what_the_tools_know_by_name_keeps_its_name():
    pool = Bfcl(load_config("bfcl_qwen3_4b")).source().pool()
    known = [task for task in pool if "sector='Technology'" in str(tool_task(task).turns)]
    made = instances_of(known, 3, pool)
    assert made
    for instance in made.values():
        assert "sector='Technology'" in str(tool_task(instance).turns)


def test_what_the_documentation_names_is_no_name():
    pool = Bfcl(load_config("bfcl_qwen3_4b")).source().pool()
    buying = [body for body in map(tool_task, pool) if "order_type='Buy'" in str(body.turns)]
    assert buying
    assert not any("Buy" in named(body) for body in buying)


class Reciting:
    """A policy that makes the calls of the trained task whose request is most like the present one.

    It knows nothing else.
    """

    def __init__(self, trained: Sequence[Task]) -> None:
        self.environment = quickstart()
        self._known = {_words(task): tool_task(task) for task in trained}

    async def of(self, tasks: Sequence[Task]) -> tuple[TaskScore, ...]:
        return tuple(map(self._score, tasks))

    async def instances(self, tasks: Sequence[Task], seed: int) -> Mapping[str, Task]:
        return await Instances(InProcessSimulator(), Vocabulary(map(tool_task, tasks))).of(
            tasks, seed
        )

    def _score(self, task: Task) -> TaskScore:
        body, said = tool_task(task), _words(task)
        alike = [each for each in self._known if len(self._known[each].turns) == len(body.turns)]
        nearest = max(alike, key=lambda each: len(each & said) / len(each | said))
        calls = [turn.reference for turn in self._known[nearest].turns]
        passed = 0 if fails(body, calls) else len(body.turns)
        return TaskScore(task_id=task.task_id, turns_passed=passed, turns_total=len(body.turns))


def _words(task: Task) -> frozenset[str]:
    body = tool_task(task)
    return frozenset(f"{body.world} {' '.join(turn.instruction for turn in body.turns)}".split())


def compared_with_reciting(trained: Sequence[Task], held_out: Sequence[Task]) -> Comparison:
    scoring = Reciting(trained)
    found = asyncio.run(compared(scoring, held_out, trained, 2 * len(trained), 0))
    assert [each.tasks for each in found] == ["held out", "trained"]
    assert len(table(found).rows) == 3  # the last one is what was memorized
    return found[1]


def test_the_instance_gap_shows_a_policy_that_recites(tasks: Sequence[Task]):
    held_out = quickstart().scored_tasks()[:20]
    found = compared_with_reciting(tasks, held_out)
    assert found.given.mean == 1
    assert found.fresh.mean < 0.1
    assert found.low > 0.8
    assert found.instances == 2 * len(tasks)


def test_an_environment_without_instances_says_so(tasks: Sequence[Task]):
    class Without(Reciting):
        async def instances(self, tasks: Sequence[Task], seed: int) -> Mapping[str, Task]:
            return {}

    with pytest.raises(ConfigError, match="--fresh: environment filesystem makes no instances"):
        asyncio.run(compared(Without(tasks), tasks, (), 5, 0))

"""Conformance checks: references and spoilt references of own tasks, in a simulator."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from coevolve.environments.appworld.mutants import mutants_of
from coevolve.environments.sdk import EARNED, Checks, Finding, findings
from coevolve.environments.tools.commands import Passed, Tried
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.source import fault
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.wire import ToolClient, ToolService
from protocols.capabilities import Capabilities
from protocols.tasks import Task

MUTANTS = 8
"""Spoilt references of each task that are tried."""

ENOUGH = 5
"""Mutants of a task that have to fail; some of the others may do the same work."""

Instances = Callable[[Sequence[Task], int], Awaitable[Mapping[str, Task]]]


@dataclass(frozen=True)
class _Subject:
    pool: SimulatorPool
    train: Sequence[Task]
    held_out: Sequence[Task]
    instances: Instances

    @property
    def tasks(self) -> Sequence[Task]:
        """Those with a reference."""
        return [task for task in (*self.train, *self.held_out) if _reference(task)]

    async def tried(self, name: str, task: Task, blocks: Sequence[str] | None = None) -> Tried:
        """Return the results of blocks, by default the reference, in a separate world."""
        played = _reference(task) if blocks is None else blocks
        return await self.pool.trial(name, tool_task(task), (tuple(played),))


async def conformance(
    simulator: ToolService,
    train: Sequence[Task],
    held_out: Sequence[Task],
    instances: Instances,
    claimed: Capabilities,
) -> tuple[Finding, ...]:
    """Return the findings of every check. Raises ConfigError."""
    pool = SimulatorPool([ToolClient(simulator)])
    try:
        return await findings(CHECKS, _Subject(pool, train, held_out, instances), claimed)
    finally:
        await simulator.close()


async def _references_pass(subject: _Subject) -> tuple[bool, str]:
    for task in subject.tasks:
        tried = await subject.tried("reference", task)
        if reason := fault(tried):
            return False, f"{task.task_id}: {reason}"
        results = tuple(each.result for each in tried.turns[0].observed)
        if results != tool_task(task).turns[0].results:
            return False, f"{task.task_id}: the reference prints other results than recorded"
    total = len(subject.train) + len(subject.held_out)
    return bool(subject.tasks), f"{len(subject.tasks)} of {total} tasks have a reference"


async def _replayable(subject: _Subject) -> tuple[bool, str]:
    for task in subject.tasks:
        one, other = [await subject.tried(f"replay-{n}", task) for n in range(2)]
        if [each.observed for each in one.turns] != [each.observed for each in other.turns]:
            return False, f"{task.task_id}: the same blocks print something else"
    return bool(subject.tasks), f"{len(subject.tasks)} tasks, twice each"


async def _state_digest(subject: _Subject) -> tuple[bool, str]:
    changed = 0
    for task in subject.tasks:
        one, other = await asyncio.gather(*(subject.tried(f"digest-{n}", task) for n in range(2)))
        if one.turns[-1].state != other.turns[-1].state:
            return False, f"{task.task_id} ends in another state the second time"
        changed += one.turns[-1].state != one.initial
    return bool(changed), f"{changed} of {len(subject.tasks)} references change the state"


async def _fresh_instances(subject: _Subject) -> tuple[bool, str]:
    made = await subject.instances(subject.tasks, 1)
    for task in made.values():
        if reason := fault(await subject.tried("instance", task)):
            return False, f"{task.task_id}: {reason}"
    told = {tool_task(task).turns[0].instruction for task in subject.tasks}
    fresh = sum(tool_task(task).turns[0].instruction not in told for task in made.values())
    return bool(fresh), f"{fresh} of {len(subject.tasks)} tasks have an instance with other words"


async def _deterministic(subject: _Subject) -> tuple[bool, str]:
    for task in subject.tasks:
        for blocks in (_reference(task), _reference(task)[:-1]):
            tried = [await subject.tried(f"reward-{n}", task, blocks) for n in range(2)]
            if tried[0].turns[-1].verdict != tried[1].turns[-1].verdict:
                return False, f"{task.task_id}: the same attempt gets another verdict"
    return bool(subject.tasks), f"{2 * len(subject.tasks)} attempts, twice each"


async def _nothing_unearned(subject: _Subject) -> tuple[bool, str]:
    """Check that no task is solved by silence, a fixed answer, or another task's reference."""
    tasks, others = (*subject.train, *subject.held_out), subject.tasks
    for number, task in enumerate(tasks):
        asked = tool_task(task).turns[0].instruction
        apart = [each for each in others if each.task_id != task.task_id]
        other = _reference(apart[number % len(apart)]) if apart else ()
        answers = ("", "ok", "done", asked)
        ends = [(f"apis.supervisor.complete_task(answer={each!r})",) for each in answers]
        for blocks in ((), ("apis.supervisor.complete_task()",), *ends, other):
            if blocks == _reference(task):
                continue
            if isinstance((await subject.tried("nothing", task, blocks)).turns[-1].verdict, Passed):
                return False, f"{task.task_id} is solved by {blocks or 'nothing'}"
    return True, f"{len(tasks)} tasks, none is solved without doing what it asks"


async def _mutants_fail(subject: _Subject) -> tuple[bool, str]:
    passed = total = 0
    for task in subject.tasks:
        rng = random.Random(task.task_id)  # noqa: S311, no secret
        mutants = mutants_of(_reference(task), rng, MUTANTS)
        tried = await asyncio.gather(
            *(subject.tried(f"mutant-{n}", task, each.blocks) for n, each in enumerate(mutants))
        )
        same = sum(isinstance(each.turns[-1].verdict, Passed) for each in tried)
        if len(mutants) - same < min(ENOUGH, len(mutants)):
            return False, f"{task.task_id}: {same} of {len(mutants)} spoilt references pass"
        passed, total = passed + same, total + len(mutants)
    return True, f"{total - passed} of {total} spoilt references fail; {passed} do the same work"


async def _speed(subject: _Subject) -> tuple[bool, str]:
    tasks = subject.tasks
    started = time.perf_counter()
    await asyncio.gather(*(subject.tried(f"speed-{n}", task) for n, task in enumerate(tasks)))
    return True, f"{len(tasks) / (time.perf_counter() - started):.1f} episodes per second"


CHECKS: Checks[_Subject] = {
    "references": _references_pass,
    "replayable": _replayable,
    "state_digest": _state_digest,
    "fresh_instances": _fresh_instances,
    "deterministic_reward": _deterministic,
    EARNED: _nothing_unearned,
    "spoilt references fail": _mutants_fail,
    "speed": _speed,
}


def _reference(task: Task) -> tuple[str, ...]:
    return tool_task(task).turns[0].reference

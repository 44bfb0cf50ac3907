"""The tasks and tools that the checks of an environment measure (`tools.conformance`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from coevolve.environments.findings import (
    UnfitError,
)
from coevolve.environments.tools.adversary.found import Named
from coevolve.environments.tools.adversary.play import solved
from coevolve.environments.tools.adversary.probes import Grading
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.wire import ToolService
from protocols.capabilities import Capabilities
from protocols.errors import SimulatorError
from protocols.tasks import Task

END_OF_TURN = ""

DETERMINISTIC = "make the tools deterministic: take what varies from the world"

Seen = tuple[list[str], str]
"""The answers of a session, and its last state."""


@dataclass(frozen=True)
class Subject:
    """An environment's tasks, and a simulator for them."""

    tool_sets: tuple[str, ...]
    pool: SimulatorPool
    train: Sequence[Task]
    held_out: Sequence[Task]
    left_out: Mapping[str, str]
    played: Named | None
    """What the adversary found as the tasks were opened; None if it was not played then."""

    claimed: Capabilities
    service: ToolService
    grading: Grading

    @property
    def tasks(self) -> Sequence[Task]:
        """All tasks, those to train on first."""
        return (*self.train, *self.held_out)

    async def unearned(self) -> Named:
        """Return what the adversary finds; it plays if it has not played."""
        if self.played is not None:
            return self.played
        bodies = list(map(tool_task, self.tasks))
        found = await solved(bodies, self.pool, self.service, self.grading)
        return found.named([task.task_id for task in self.tasks])

    async def verdict(
        self, session: str, task: Task, calls: Sequence[str] = (), words: str = ""
    ) -> tuple[object, ...]:
        """Return the verdicts on an attempt: all calls in its first turn, words in each.

        Raises UnfitError if the attempt cannot be graded.
        """
        body = tool_task(task)
        await self.pool.reset(session, body)
        try:
            for call in calls:
                await self.pool.act(session, call)
            return tuple([await self.pool.grade(session, words) for _ in body.turns])
        except SimulatorError as error:
            raise UnfitError(f"{task.task_id}, answer {words!r:.60}: {error}") from error
        finally:
            await self.pool.release(session)

    async def side_by_side(self, tasks: Mapping[str, Task]) -> list[Seen]:
        """Return the results of sessions that are opened together and take turns, call by call."""
        bodies = {name: tool_task(task) for name, task in tasks.items()}
        answers: dict[str, list[str]] = {name: [] for name in tasks}
        for name, body in bodies.items():
            await self.pool.reset(name, body)
        for steps in zip_longest(*map(_steps, bodies.values())):
            for name, step in zip(bodies, steps, strict=True):
                if step == END_OF_TURN:
                    await self.pool.grade(name)
                elif step is not None:
                    answers[name].append((await self.pool.act(name, step)).result)
        seen = [(answers[name], await self.pool.look(name)) for name in bodies]
        for name in bodies:
            await self.pool.release(name)
        return seen

    def refuse(self, reason: str) -> None:
        """Raise UnfitError if tasks were left out for this reason."""
        for task_id, found in self.left_out.items():
            if reason in found:
                raise UnfitError(f"{task_id}: {found}; {DETERMINISTIC}")

    async def carried_out(self, name: str, task: Task) -> Tried:
        """Return the results of the task's reference in a separate world."""
        body = tool_task(task)
        return await self.pool.trial(name, body, body.references)


def reference_calls(task: Task) -> list[str]:
    """Return the calls of a task's reference."""
    return [call for turn in tool_task(task).turns for call in turn.reference]


def _steps(body: ToolTask) -> list[str]:
    """Return the reference's calls, with a mark at the end of each turn."""
    return [step for turn in body.turns for step in (*turn.reference, END_OF_TURN)]


def answers_of(tried: Tried) -> list[str]:
    """Return the answers of the tools."""
    return [each.result for turn in tried.turns for each in turn.observed]


def seen_in(tried: Tried) -> Seen:
    """Return what a session with these calls shows."""
    return answers_of(tried), tried.turns[-1].state

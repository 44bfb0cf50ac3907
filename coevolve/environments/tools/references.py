"""Executes the references of given tasks, in this process or in a simulator's child process.

Built-in tool sets always end, so their references run here. A user's tool set may hang, end its
process or access the host, so its references run in a child with the limits of `tools.child`. The
outcomes are cached, because a process needs them more than once.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from coevolve.base.in_thread import run_to_end
from coevolve.environments.tools.commands import Broken, Trial, Tried
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.trial import TrialRun
from coevolve.environments.tools.worker import ToolWorker
from protocols.errors import ConfigError, SimulatorError
from protocols.tasks import Task

Outcome = Tried | Broken
"""The results of a reference, or the reason why it could not be executed."""

Player = Callable[[Sequence[Task]], Sequence[Outcome]]

CARRIED_OUT = 4096
"""Maximum number of cached outcomes of references that run in this process."""

BATCH = 16
"""References sent to a child at a time; the larger this is, the later a hanging one is found."""

_apart: dict[ToolTask, Outcome] = {}
"""Outcomes of the tasks whose references last ran in a child."""


def played_here(tasks: Sequence[Task]) -> Sequence[Outcome]:
    """Return the outcomes of the references, executed in this process."""
    return [_play_here(tool_task(task)) for task in tasks]


def played_apart(worker: ToolWorker) -> Player:
    """Return a function that executes references in the worker's child and then closes the child.

    It raises ConfigError with the task's name if a reference hangs or ends the child.
    """

    def play(tasks: Sequence[Task]) -> Sequence[Outcome]:
        bodies = list(map(tool_task, tasks))
        if not all(body in _apart for body in bodies):
            found = run_to_end(_play_apart(worker, tasks))
            _apart.clear()
            _apart.update(zip(bodies, found, strict=True))
        return [_apart[body] for body in bodies]

    return play


@lru_cache(maxsize=CARRIED_OUT)
def _play_here(body: ToolTask) -> Outcome:
    try:
        return TrialRun(body, body.references).play()
    except SimulatorError as error:
        return Broken(reason=str(error))


async def _play_apart(worker: ToolWorker, tasks: Sequence[Task]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    try:
        for first in range(0, len(tasks), BATCH):
            outcomes += await _batch(worker, tasks[first : first + BATCH])
    finally:
        await worker.close()
    return outcomes


async def _batch(worker: ToolWorker, tasks: Sequence[Task]) -> list[Outcome]:
    """Return the outcomes; if the child is lost, try the tasks one by one. Raises ConfigError."""
    replies = await worker.execute(list(map(_trial, tasks)))
    outcomes = [reply for reply in replies if isinstance(reply, Tried | Broken)]
    if any(isinstance(each, Tried) or each.reason != worker.last_error for each in outcomes):
        return outcomes
    if len(tasks) == 1:
        raise ConfigError(
            f"environment.tasks: task {tasks[0].task_id!r} needs a reset and a reference that end "
            f"and keep the simulator alive; found: {worker.last_error}"
        )
    return [outcome for task in tasks for outcome in await _batch(worker, [task])]


def _trial(task: Task) -> Trial:
    body = tool_task(task)
    return Trial(session=task.task_id, task=body, turns=body.references)

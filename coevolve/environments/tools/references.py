"""Carries out the references of given tasks, here or in a simulator's own process.

Built-in tool sets are known to end, and are played here. Those of others may hang, end their
process or reach for the host, so they are played where `tools.child` limits them. What came of it
is remembered, since a process asks more than once.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, TypeVar

from coevolve.environments.tools.commands import Broken, Trial, Tried
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.trial import TrialRun
from coevolve.environments.tools.worker import ToolWorker
from protocols.errors import ConfigError, SimulatorError
from protocols.tasks import Task

T = TypeVar("T")

Outcome = Tried | Broken
"""How a reference went, or why it could not be carried out."""

Player = Callable[[Sequence[Task]], Sequence[Outcome]]

CARRIED_OUT = 4096
"""References whose outcome is remembered, of those that are played here."""

BATCH = 16
"""References that a child is sent at a time: the more, the later is one found that hangs."""

_apart: dict[ToolTask, Outcome] = {}
"""Outcomes of the tasks that were last played apart."""


def played_here(tasks: Sequence[Task]) -> Sequence[Outcome]:
    """Return what comes of the references in this process."""
    return [_carried_out(tool_task(task)) for task in tasks]


def played_apart(worker: ToolWorker) -> Player:
    """Return what plays references in the worker's child, which it closes.

    It raises ConfigError, naming the task, where one hangs or ends the child.
    """

    def play(tasks: Sequence[Task]) -> Sequence[Outcome]:
        bodies = list(map(tool_task, tasks))
        if not all(body in _apart for body in bodies):
            found = _finished(_played(worker, tasks))
            _apart.clear()
            _apart.update(zip(bodies, found, strict=True))
        return [_apart[body] for body in bodies]

    return play


@lru_cache(maxsize=CARRIED_OUT)
def _carried_out(body: ToolTask) -> Outcome:
    try:
        return TrialRun(body, [turn.reference for turn in body.turns]).play()
    except SimulatorError as error:
        return Broken(reason=str(error))


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what comes of ``work``, whether or not an event loop runs in this thread."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result()


async def _played(worker: ToolWorker, tasks: Sequence[Task]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    try:
        for first in range(0, len(tasks), BATCH):
            outcomes += await _batch(worker, tasks[first : first + BATCH])
    finally:
        await worker.close()
    return outcomes


async def _batch(worker: ToolWorker, tasks: Sequence[Task]) -> list[Outcome]:
    """Return the outcomes, one by one where the child is lost. Raises ConfigError."""
    replies = await worker.execute(list(map(_trial, tasks)))
    outcomes = [reply for reply in replies if isinstance(reply, Tried | Broken)]
    if any(isinstance(each, Tried) or each.reason != worker.last_error for each in outcomes):
        return outcomes
    if len(tasks) == 1:
        raise ConfigError(
            f"environment.tasks: task {tasks[0].task_id!r} needs a reset and a reference that come "
            f"to an end, and leave the simulator alive; found: {worker.last_error}"
        )
    return [outcome for task in tasks for outcome in await _batch(worker, [task])]


def _trial(task: Task) -> Trial:
    body = tool_task(task)
    turns = tuple(turn.reference for turn in body.turns)
    return Trial(session=task.task_id, task=body, turns=turns)

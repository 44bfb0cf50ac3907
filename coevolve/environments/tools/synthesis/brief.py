"""The part of a synthesis request that only environments with tools have."""

import msgspec

from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from protocols.synthesis import Brief
from protocols.tasks import Task

NOTHING_ASKED = (ToolTurn(instruction="", reference=()),)
"""The turns of a world that is only explored."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A state of the training split from which exploration starts."""

    origin: str
    """Its source, for example the id of a training task or ``grammar:world:17``."""

    classes: tuple[str, ...]
    world: str
    """Initial state: JSON object from class name to that class's scenario."""

    long_context: bool = False
    extra: str = ""
    checks_directory: bool = False
    """As in `coevolve.environments.tools.task.ToolTask`, for the tasks made from it."""

    def task(self, turns: tuple[ToolTurn, ...] = NOTHING_ASKED) -> ToolTask:
        """Return a task with ``turns`` in this world; by default it is only explored."""
        return ToolTask(
            classes=self.classes,
            world=self.world,
            turns=turns,
            long_context=self.long_context,
            extra=self.extra,
            checks_directory=self.checks_directory,
        )


def start_of(task: Task) -> Start:
    """Return the world of a task."""
    body = tool_task(task)
    return Start(
        origin=task.task_id,
        classes=body.classes,
        world=body.world,
        long_context=body.long_context,
        extra=body.extra,
        checks_directory=body.checks_directory,
    )


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `protocols.synthesis.Brief.context`."""

    instructions: tuple[str, ...] = ()
    """The instructions of the flagged task, by turn; empty if no task is flagged."""

    starts: tuple[Start, ...]
    """One for each round of exploration."""


_decoder = msgspec.msgpack.Decoder(ToolContext)


def tool_context(brief: Brief) -> ToolContext:
    """Return the context. Raises msgspec.MsgspecError if another environment wrote it."""
    return _decoder.decode(brief.context)

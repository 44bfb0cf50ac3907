"""What a synthesizer of tasks with tools is told beyond what every environment's is."""

import msgspec

from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.synthesis import Brief

NOTHING_ASKED = (ToolTurn(instruction="", reference=()),)
"""The turns of a world that is only explored."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A state of the training split to explore from."""

    origin: str
    """Where it comes from, for example the id of a training task or ``grammar:world:17``."""

    classes: tuple[str, ...]
    world: str
    """Initial state: JSON object from class name to that class's scenario."""

    long_context: bool = False
    checks_directory: bool = False
    """As in `coevolve.environments.tools.task.ToolTask`, for the tasks that come of it."""

    def task(self, turns: tuple[ToolTurn, ...] = NOTHING_ASKED) -> ToolTask:
        """Return what asks for ``turns`` here; by default a world that is only explored."""
        return ToolTask(
            classes=self.classes,
            world=self.world,
            turns=turns,
            long_context=self.long_context,
            checks_directory=self.checks_directory,
        )


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `protocols.synthesis.Brief.context`."""

    instructions: tuple[str, ...] = ()
    """What the user says in the flagged task, by turn; empty where no task is flagged."""

    starts: tuple[Start, ...]
    """One for each round of exploring."""


_decoder = msgspec.msgpack.Decoder(ToolContext)


def tool_context(brief: Brief) -> ToolContext:
    """Return what else is told. Raises msgspec.MsgspecError if it is another environment's."""
    return _decoder.decode(brief.context)

"""Tasks with tools: the body of a `protocols.tasks.Task` of these environments."""

from typing import Annotated

import msgspec

from protocols.tasks import Task


class ToolTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction of the user and the validated way to carry it out."""

    instruction: str
    """What the user says. Empty where a turn only reveals tools."""

    reference: tuple[str, ...]
    """Calls that solve the turn, as Python call expressions with literal arguments, in order.

    Empty where the right thing is to make no call (a tool or a parameter is missing).
    """

    results: tuple[str, ...] = ()
    """What the simulator answered to each call of ``reference``, where it was recorded."""

    revealed: tuple[str, ...] = ()
    """Tools that become available with this turn."""

    def __post_init__(self) -> None:
        """Refuse results that do not line up with the calls."""
        if self.results and len(self.results) != len(self.reference):
            raise ValueError(
                "a turn needs one result per reference call or none at all, "
                f"got {len(self.results)} results for {len(self.reference)} calls"
            )


class ToolTask(msgspec.Struct, frozen=True, kw_only=True, tag="tools"):
    """A conversation of one or more turns with stateful tools."""

    classes: tuple[str, ...]
    """Simulator classes whose methods are the tools, for example ``GorillaFileSystem``."""

    world: str
    """Initial state: JSON object from class name to that class's scenario."""

    turns: Annotated[tuple[ToolTurn, ...], msgspec.Meta(min_length=1)]

    withheld: tuple[str, ...] = ()
    """Tools that are not available until some turn reveals them."""

    long_context: bool = False
    """Whether the simulators extend their state with long filler, as BFCL's category does."""

    extra: str = ""
    """Further fields that a task file has of the task: a JSON object; empty for none."""

    checks_directory: bool = False
    """Whether a turn also has to end in the reference's working directory.

    BFCL's own checker does not look at it; the quickstart's tasks do.
    """


_decoder = msgspec.msgpack.Decoder(ToolTask)


def read_body(body: msgspec.Raw) -> ToolTask:
    """Return the task behind a message's body. Raises msgspec.MsgspecError if it is another's."""
    return _decoder.decode(body)


def tool_task(task: Task) -> ToolTask:
    """Return what is to be done; as `read_body`."""
    return read_body(task.body)

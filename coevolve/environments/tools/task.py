"""Tasks with tools: the body of a `protocols.tasks.Task` of these environments."""

from typing import Annotated

import msgspec

from protocols.tasks import Task


class ToolTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction of the user, and validated calls that carry it out."""

    instruction: str
    """The user's text. Empty if the turn only reveals tools."""

    reference: tuple[str, ...]
    """Calls that solve the turn, as Python call expressions with literal arguments, in order.

    Empty if the correct behaviour is to make no call (a tool or a parameter is missing).
    """

    results: tuple[str, ...] = ()
    """The simulator's answer to each call of ``reference``, if it was recorded."""

    revealed: tuple[str, ...] = ()
    """Tools that become available with this turn."""

    def __post_init__(self) -> None:
        """Raise ValueError if the number of results does not match the calls."""
        if self.results and len(self.results) != len(self.reference):
            raise ValueError(
                "a turn needs one result per reference call or no results, "
                f"found {len(self.results)} results for {len(self.reference)} calls"
            )


class ToolTask(msgspec.Struct, frozen=True, kw_only=True, tag="tools"):
    """A conversation of one or more turns with stateful tools."""

    classes: tuple[str, ...]
    """Simulator classes whose methods are the tools, for example ``GorillaFileSystem``."""

    world: str
    """Initial state: JSON object from class name to that class's scenario."""

    turns: Annotated[tuple[ToolTurn, ...], msgspec.Meta(min_length=1)]

    withheld: tuple[str, ...] = ()
    """Tools that are not available until a turn reveals them."""

    long_context: bool = False
    """Whether the simulators extend their state with long filler, as BFCL's category does."""

    extra: str = ""
    """Further fields of the task in its task file, as a JSON object; empty for none."""

    checks_directory: bool = False
    """Whether a turn must also end in the reference's working directory.

    BFCL's own checker does not check this; the quickstart's tasks do.
    """

    strict: bool = False
    """Whether turns are graded more strictly than BFCL's checker does (`tools.session`).

    The gates set it on a task whose mutants only the stricter grading tells from its reference.
    """

    @property
    def references(self) -> tuple[tuple[str, ...], ...]:
        """The reference's calls by turn."""
        return tuple(turn.reference for turn in self.turns)


_decoder = msgspec.msgpack.Decoder(ToolTask)


def read_body(body: msgspec.Raw) -> ToolTask:
    """Return the task in a message's body. Raises msgspec.MsgspecError if it is of another kind."""
    return _decoder.decode(body)


def tool_task(task: Task) -> ToolTask:
    """Return the body of a task, as `read_body` does."""
    return read_body(task.body)


def asked_in(body: ToolTask, turn: int) -> str:
    """Return the turn's instruction, and those of the turns without calls just before it."""
    first = turn
    while first and not body.turns[first - 1].reference:
        first -= 1
    return "\n".join(each.instruction for each in body.turns[first : turn + 1])

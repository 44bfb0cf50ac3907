"""The gates that check a candidate before anything is executed."""

from coevolve.environments.tools.calls import NotACallError, RefusedCallError
from coevolve.environments.tools.gates.reading import ReadCall, read_call, tools_of
from coevolve.environments.tools.session import World
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.toolsets import is_tool_set
from protocols.errors import SimulatorError

MAX_TURNS = 8
"""Maximum turns of a candidate; the benchmark's longest conversation has seven."""

MAX_ARGUMENTS = 128
MAX_INSTRUCTION_CHARS = 4000


class MalformedError(Exception):
    """The candidate is not a valid task; the message says why."""


def read_reference(body: ToolTask, calls_per_turn: int) -> tuple[tuple[ReadCall, ...], ...]:
    """Return the reference's calls by turn.

    Raises:
        MalformedError: The task cannot be attempted: it has no turn or too many, an empty
            instruction in a turn that reveals no tool, more calls in a turn than
            ``calls_per_turn``, text other than a call with literal arguments, a withheld tool that
            no turn reveals, or a world that does not load.
    """
    if not 1 <= len(body.turns) <= MAX_TURNS:
        raise MalformedError(f"{len(body.turns)} turns; 1 to {MAX_TURNS} can be had")
    unknown = [name for name in body.classes if not is_tool_set(name)]
    if unknown or len(set(body.classes)) != len(body.classes) or not body.classes:
        raise MalformedError(f"the simulator classes are {', '.join(body.classes) or 'none'}")
    for number, turn in enumerate(body.turns):
        if fault := _fault(turn, calls_per_turn):
            raise MalformedError(f"turn {number + 1}: {fault}")
    if unrevealed := set(body.withheld) - {tool for turn in body.turns for tool in turn.revealed}:
        raise MalformedError(f"no turn reveals the withheld tool {min(unrevealed)}")
    try:
        World(body)
    except SimulatorError as error:
        raise MalformedError(str(error)) from error
    read = tuple(tuple(_read(call, body) for call in turn.reference) for turn in body.turns)
    arguments = sum(len(call.arguments) for calls in read for call in calls)
    if arguments > MAX_ARGUMENTS:
        raise MalformedError(f"{arguments} arguments; at most {MAX_ARGUMENTS} can be checked")
    return read


def unknown_tool(body: ToolTask, read: tuple[tuple[ReadCall, ...], ...]) -> str:
    """Return a message about the first unknown tool; empty if all tools are known."""
    tools = tools_of(body.classes)
    named = (*(call.tool for calls in read for call in calls), *body.withheld)
    unknown = [tool for tool in named if tool not in tools]
    return f"there is no tool {unknown[0]}" if unknown else ""


def _fault(turn: ToolTurn, calls_per_turn: int) -> str:
    if not (turn.instruction.strip() or turn.revealed):
        return "the instruction is empty"
    if len(turn.instruction) > MAX_INSTRUCTION_CHARS:
        return f"the instruction has {len(turn.instruction)} characters"
    if len(turn.reference) > calls_per_turn:
        return f"{len(turn.reference)} calls; the policy may make {calls_per_turn}"
    return ""


def _read(call: str, body: ToolTask) -> ReadCall:
    try:
        return read_call(call, tools_of(body.classes))
    except (NotACallError, RefusedCallError) as error:
        raise MalformedError(f"{call!r}: {error}") from error

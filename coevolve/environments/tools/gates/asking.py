"""Gate of turns in which the right thing is to make no call: to ask, or to say what is missing.

Such a turn needs a fact behind it, which the next turn shows: its calls use a tool that does not
exist yet, or a value that its instruction says and no earlier one does. That acting in such a turn
fails is the verifier's business (`mutants.hasty`).
"""

from collections.abc import Sequence

from coevolve.environments.tools.gates.forms import says
from coevolve.environments.tools.gates.reading import ReadCall, leaves
from coevolve.environments.tools.task import ToolTask


def unasked(body: ToolTask, read: Sequence[Sequence[ReadCall]]) -> str:
    """Return the first turn without calls in which nothing is missing; empty if there is none."""
    withheld = set(body.withheld)
    for number, turn in enumerate(body.turns):
        withheld -= set(turn.revealed)
        if turn.reference:
            continue
        following = read[number + 1] if number + 1 < len(read) else ()
        if not following:
            return f"turn {number + 1} has no calls, and no next turn shows what it lacks"
        if not (
            any(call.tool in withheld for call in following) or _is_told(body, number, following)
        ):
            return f"turn {number + 1} has no calls, although it lacks nothing that turn {number + 2} has"
    return ""


def _is_told(body: ToolTask, number: int, following: Sequence[ReadCall]) -> bool:
    """Return whether the turn after ``number`` is the first to say a value of its calls."""
    before = "\n".join(turn.instruction for turn in body.turns[: number + 1])
    now = body.turns[number + 1].instruction
    values = (
        value
        for call in following
        for argument in call.arguments
        for value in leaves(argument.value)
    )
    return any(says(now, value) and not says(before, value) for value in values)

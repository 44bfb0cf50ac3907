"""Gates of the instructions: the policy can know every value that matters, and nothing misleads it."""

from collections.abc import Sequence

from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.discovery import Discovery, Known, Shown
from coevolve.environments.tools.gates.forms import as_number, digits, is_rounded, says, shows
from coevolve.environments.tools.gates.mutants import Place
from coevolve.environments.tools.gates.reading import ReadCall, tools_of
from coevolve.environments.tools.gates.wording import (
    Unsaid,
    Unused,
    is_given,
    unsaid,
    unused,
    values_of,
)
from coevolve.environments.tools.task import ToolTask

Read = Sequence[Sequence[ReadCall]]


async def first_unknown(
    body: ToolTask, read: Read, played: Tried, free: frozenset[Place], discovery: Discovery
) -> Unsaid | None:
    """Return the first value that the policy cannot know; None if it can know all.

    It knows what the texts say (`wording.unsaid`), what reading calls show before the call, and the
    difference of a number that is said or documented and one that is shown (*fill it up*). Free
    arguments do not matter.
    """
    answers = _answers(played)
    for each in unsaid(body.turns, read, answers, tools_of(body.classes)):
        if (each.turn, each.call, each.position) in free:
            continue
        if not await _is_found_out(each, body, read, answers, discovery):
            return each
    return None


async def invented(body: ToolTask, read: Read, played: Tried, discovery: Discovery) -> str:
    """Return the first quotation or number that has no use; empty if all have one.

    A quotation may be an argument, or name the place or state that a reading call without arguments
    shows. Or it is what a reading call takes to show a value that the turn's calls take: *Apple*
    for ``AAPL``. A number may be the sum of an argument and a shown number.
    """
    answers = _answers(played)
    for each in unused(body.turns, read):
        shown = await discovery.shown(_known((each.turn, 0), body, read, answers))
        if not _has_use(each, list(values_of(read[each.turn])), shown):
            return each.text()
    return ""


def _has_use(each: Unused, values: Sequence[object], shown: Sequence[Shown]) -> bool:
    if isinstance(each.value, str):
        return any(_explains(each.value, values, answer) for answer in shown)
    numbers = [number for value in values if (number := as_number(value)) is not None]
    return any(
        is_rounded(number, each.value - other)
        for answer in shown
        for other in digits(answer.text)
        for number in numbers
    )


def _explains(quoted: str, values: Sequence[object], answer: Shown) -> bool:
    if not answer.takes:
        return answer.text.count("\n") < 2 and says(answer.text, quoted.strip("/"))
    takes_it = any(str(value).strip(".") == quoted.strip(".") for value in answer.takes)
    return takes_it and any(shows(answer.text, value) for value in values if len(str(value)) > 1)


async def _is_found_out(
    each: Unsaid,
    body: ToolTask,
    read: Read,
    answers: Sequence[Sequence[str]],
    discovery: Discovery,
) -> bool:
    """Return whether reading calls before the value's call, or before an earlier one, show it."""
    points = [(turn, call) for turn, calls in enumerate(read) for call in range(len(calls))]
    instruction = body.turns[each.turn].instruction
    documented = tools_of(body.classes)[read[each.turn][each.call].tool].description
    for point in reversed(points[: points.index((each.turn, each.call)) + 1]):
        shown = await discovery.shown(_known(point, body, read, answers))
        text = "\n".join(answer.text for answer in shown)
        if is_given(each.value, instruction, text):
            return True
        if _is_difference(each.value, digits(f"{instruction}\n{documented}"), shown):
            return True
    return False


def _is_difference(value: object, said: set[float], shown: Sequence[Shown]) -> bool:
    """Return whether a number is a said one minus one that a reading call shows by itself."""
    number = as_number(value)
    if number is None:
        return False
    alone = (digits(answer.text) for answer in shown if answer.text.count("\n") < 2)
    return any(
        is_rounded(number, one - other) for others in alone for other in others for one in said
    )


def _answers(played: Tried) -> list[list[str]]:
    return [[observed.result for observed in turn.observed] for turn in played.turns]


def _known(
    point: tuple[int, int], body: ToolTask, read: Read, answers: Sequence[Sequence[str]]
) -> Known:
    """Return what the policy knows before a call, given by its turn and place."""
    turn, call = point
    revealed = {tool for each in body.turns[: turn + 1] for tool in each.revealed}
    return Known(
        calls=[*(each for calls in read[:turn] for each in calls), *read[turn][:call]],
        said="\n".join(each.instruction for each in body.turns[: turn + 1]),
        answers=[*(text for texts in answers[:turn] for text in texts), *answers[turn][:call]],
        withheld=frozenset(body.withheld) - revealed,
    )

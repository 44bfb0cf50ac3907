"""Gates of the instructions: the policy can know every value, and nothing misleads it."""

import re
from collections.abc import Sequence

from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.discovery import Discovery, Known, Shown
from coevolve.environments.tools.gates.forms import (
    as_number,
    digits,
    is_composed,
    is_rounded,
    says,
    shows,
    words,
)
from coevolve.environments.tools.gates.mutants import Place
from coevolve.environments.tools.gates.reading import Read, tools_of
from coevolve.environments.tools.gates.wording import (
    QUOTED,
    Unsaid,
    Unused,
    quotations,
    unsaid,
    unused,
    values_of,
)
from coevolve.environments.tools.task import ToolTask, asked_in


async def first_unknown(
    body: ToolTask, read: Read, played: Tried, free: frozenset[Place], discovery: Discovery
) -> Unsaid | None:
    """Return the first value that the policy cannot know; None if it can know all.

    It knows what the texts say (`wording.unsaid`), what the instruction singles out among what
    reading calls show before the call (`_is_singled_out`), and the difference or product of a
    number that is said or documented and one that is shown (*fill it up*, *double it*). Free
    arguments do not matter.
    """
    answers = answers_of(played)
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
    for ``AAPL``. Or it is what a later turn's calls take, and is there already when this turn is
    done. Or an earlier turn with calls quotes it, where it had a use. A number may be the sum of an
    argument and a shown number.
    """
    answers = answers_of(played)
    for each in unused(body.turns, read):
        before = (turn.instruction for turn in body.turns[: each.turn] if turn.reference)
        if each.value in set(quotations("\n".join(before))):
            continue
        shown = await discovery.shown(known_before((each.turn, 0), body, read, answers))
        if _has_use(each, list(values_of(read[each.turn])), shown):
            continue
        if not await _is_announced(each, body, read, answers, discovery):
            return each.text()
    return ""


async def _is_announced(
    each: Unused,
    body: ToolTask,
    read: Read,
    answers: Sequence[Sequence[str]],
    discovery: Discovery,
) -> bool:
    """Return whether a quotation names what exists after its turn and what a later turn takes."""
    later = {str(value) for calls in read[each.turn + 1 :] for value in values_of(calls)}
    if each.value not in later:
        return False
    shown = await discovery.shown(known_before((each.turn + 1, 0), body, read, answers))
    return any(each.value in answer.values for answer in shown)


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
        return _is_short(answer) and says(answer.text, quoted.strip("/"))
    takes_it = [str(value).strip(".") for value in answer.takes] == [quoted.strip(".")]
    return takes_it and any(_is_value(answer, value) for value in values if len(str(value)) > 1)


async def _is_found_out(
    each: Unsaid,
    body: ToolTask,
    read: Read,
    answers: Sequence[Sequence[str]],
    discovery: Discovery,
) -> bool:
    """Return whether reading calls before the value's call, or before an earlier one, show it."""
    points = [(turn, call) for turn, calls in enumerate(read) for call in range(len(calls))]
    asked = asked_in(body, each.turn)
    documented = tools_of(body.classes)[read[each.turn][each.call].tool].description
    for point in reversed(points[: points.index((each.turn, each.call)) + 1]):
        shown = await discovery.shown(known_before(point, body, read, answers))
        if _is_singled_out(each.value, asked, shown):
            return True
        if _is_computed(each.value, digits(f"{asked}\n{documented}"), shown):
            return True
        if _is_multiple(each.value, asked, shown):
            return True
    return False


def _is_singled_out(value: object, asked: str, shown: Sequence[Shown]) -> bool:
    """Return whether an answer shows the value, and the instruction says that it is this one.

    It does if the call takes a value that it says and answers with this one, if it says a word of
    the value or chooses by order or amount (*the last*, *all*), or if the answer shows nothing else
    of this kind.
    """
    showing = [answer for answer in shown if shows(answer.text, value)]
    if not showing:
        composed = is_composed(value, "\n".join((asked, *(answer.text for answer in shown))))
        return composed and _chooses(asked)
    if singles_out(asked, value) or _chooses(asked):
        return True
    return not is_small(value) and any(
        (_is_asked(answer, asked) and _is_value(answer, value)) or _is_single(answer, value)
        for answer in showing
    )


def is_small(value: object) -> bool:
    """Return whether a value is a number that answers contain by chance."""
    number = as_number(value)
    return number is not None and number == int(number) and abs(number) < LEAST_NUMBER


def _is_value(answer: Shown, value: object) -> bool:
    """Return whether an answer has the value as one of its own, and not within a longer text."""
    return any(
        shows(each, value) and ("/" in each or words(each) == words(str(value)))
        for each in answer.values
    )


def singles_out(instruction: str, value: object) -> bool:
    """Return whether an instruction says a word of the value, or chooses by order."""
    in_order = _ORDERS.search(_NAMED.sub(" ", instruction)) is not None
    return in_order or _says_part(instruction, value)


def _chooses(asked: str) -> bool:
    return _CHOOSES.search(_NAMED.sub(" ", asked)) is not None


def _is_asked(answer: Shown, asked: str) -> bool:
    return any(len(str(taken)) > 2 and says(asked, taken) for taken in answer.takes)


def _is_single(answer: Shown, value: object) -> bool:
    """Return whether the answer shows one value of the kind only."""
    alike = [
        line for line in answer.values if (as_number(line) is None) == (as_number(value) is None)
    ]
    return len(alike) == 1


def _says_part(asked: str, value: object) -> bool:
    parts = words(str(value)).split()
    return any(len(part) > 2 and says(asked, part) for part in parts[: max(1, len(parts) - 1)])


_NAMED = re.compile(rf"{QUOTED.pattern}|\S*[._/@#]\w+")
"""Names: quotations, files and paths."""

_ORDERS = re.compile(
    r"\b(?:first|second|third|fourth|fifth|last|latest|newest|oldest|recent(?:ly)?|previous(?:ly)?"
    r"|earlier|next|same|other|largest|smallest|highest|lowest|longest|shortest|cheapest|nearest"
    r"|closest)\b",
    re.IGNORECASE,
)
"""Words that choose one thing of what an answer shows."""

_CHOOSES = re.compile(
    r"\b(?:current(?:ly)?|two|three|all|both|each|every|any|whole|entire|most|least|only|just"
    r"|existing|that I (?:had|have|just)|average|mean|total|count|number|results?|contents?"
    r"|estimated?)\b",
    re.IGNORECASE,
)
"""Words that take all of what an answer shows, or the only thing."""


def _is_computed(value: object, said: set[float], shown: Sequence[Shown]) -> bool:
    """Return whether a number is a said one minus, or times, one that a reading call shows.

    A product counts from `LEAST_PRODUCT` on, because small ones come about by chance.
    """
    number = as_number(value)
    if number is None:
        return False
    alone = {other for answer in shown if _is_short(answer) for other in digits(answer.text)}
    every = {other for answer in shown for other in digits(answer.text)}
    return any(is_rounded(number, one - other) for other in alone for one in said) or (
        number >= LEAST_PRODUCT
        and any(is_rounded(number, one * other) for other in every for one in said if one != 1)
    )


def _is_multiple(value: object, asked: str, shown: Sequence[Shown]) -> bool:
    """Return whether a number is the multiple of a shown one that the instruction asks for."""
    number = as_number(value)
    said = set(words(asked).split())
    factors = [factor for word, factor in _MULTIPLES.items() if word in said]
    return number is not None and any(
        is_rounded(number, factor * other)
        for answer in shown
        if _is_short(answer)
        for other in digits(answer.text)
        for factor in factors
    )


_MULTIPLES = {"double": 2.0, "twice": 2.0, "triple": 3.0, "half": 0.5, "halve": 0.5}


def _is_short(answer: Shown) -> bool:
    return len(answer.values) <= SHORT_LINES


LEAST_PRODUCT = 100

LEAST_NUMBER = 100
"""Smaller whole numbers occur in answers by chance."""

SHORT_LINES = 2
"""Maximum lines of an answer that describes one thing."""


def answers_of(played: Tried) -> list[list[str]]:
    """Return the answers by turn."""
    return [[observed.result for observed in turn.observed] for turn in played.turns]


def known_before(
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

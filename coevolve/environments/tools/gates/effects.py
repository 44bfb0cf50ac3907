"""Gates of what the calls do: nothing is true already, and no reading call is superfluous."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, cast

from coevolve.environments.tools.gates import mutants
from coevolve.environments.tools.gates.forms import as_number, digits, plain, says, shows, words
from coevolve.environments.tools.gates.mutants import Slot
from coevolve.environments.tools.gates.reading import Read, ReadCall, leaves, tools_of
from coevolve.environments.tools.gates.trials import Step, Trials
from coevolve.environments.tools.task import ToolTask, asked_in

COMMON_SHARE = 0.2
"""A word in more than this share of the tools' documents says nothing about one of them..."""

COMMON = 3
"""... nor does one in more than this number, if the share is less."""

_STOP = frozenset(
    re.findall(
        r"\w+",
        """
    a an and any are as at be by can could do for from get has have i if in into is it its me my
    not of on one or out so than that the their them then there these this to up us use was what
    when where which who will with would you your all also some please let make sure need want
    after before now just here given specified true false none name value id string list number
    error result current
        """,
    )
)


class Done(NamedTuple):
    """A call of the reference with its effect."""

    turn: int
    place: int
    """Number of the call within its turn."""

    read: ReadCall
    step: Step


def done(read: Read, steps: Sequence[Step]) -> tuple[Done, ...]:
    """Return the reference's calls with their effects."""
    calls = [
        (turn, place, call) for turn, calls in enumerate(read) for place, call in enumerate(calls)
    ]
    return tuple(Done(*call, step) for call, step in zip(calls, steps, strict=True))


async def true_already(
    made: Sequence[Done],
    read: Read,
    names: Sequence[str],
    trials: Trials,
) -> str:
    """Return the first call that changes nothing although it could; empty if there is none.

    With other values, or at another place of the task, the same tool changes the world. So its
    effect is there already, or it failed without an error.
    """
    every = mutants.slots(read)
    changing = {each.read.tool for each in made if each.step.changes}
    for number, each in enumerate(made):
        if each.step.changes:
            continue
        others = [other.step.call for other in made[:number]]
        if each.read.tool in changing or await _could(each, others, every, names, trials):
            return f"turn {each.turn + 1}: {each.step.call} changes nothing, although it could"
    return ""


async def _could(
    each: Done, before: Sequence[str], every: Sequence[Slot], names: Sequence[str], trials: Trials
) -> bool:
    """Return whether the call changes the world with other values."""
    variants: list[str] = []
    for position, argument in enumerate(each.read.arguments):
        slot = Slot(each.turn, 0, position, each.read.tool, argument)
        for value in mutants.wrong_values(slot, every, names):
            variants.append(each.read.with_value(position, value).text())
    steps = await trials.steps([*before, *variants])
    return any(step.changes for step in steps[len(before) :])


def superfluous(body: ToolTask, made: Sequence[Done]) -> str:
    """Return the first reading call without use; empty if there is none.

    It is of use if it is its turn's only call, if a later call takes a value from its answer that
    the user has not said, or if the instruction speaks of what it reads: it shares a word with the
    tool's documentation or with the answer's keys that few tools share.
    """
    sizes = Counter(each.turn for each in made)
    for number, each in enumerate(made):
        if each.step.changes or sizes[each.turn] == 1:
            continue
        said = asked_in(body, each.turn)
        beside = [other for other in made if other.turn == each.turn and other is not each]
        if not (
            _is_used(each, made[number + 1 :], said)
            or _is_named(each, beside, body)
            or _is_meant(each, body)
        ):
            return f"turn {each.turn + 1}: nothing needs {each.step.call}"
    return ""


def told_answer(body: ToolTask, made: Sequence[Done]) -> str:
    """Return the first turn whose instruction says all that its last call answers."""
    for turn, instruction in enumerate(each.instruction for each in body.turns):
        calls = [each for each in made if each.turn == turn]
        if not calls or calls[-1].step.changes:
            continue
        last = calls[-1]
        given = "\n".join(map(str, _values(last)))
        lines = [line for line in plain(last.step.observed.result).split("\n") if line.strip()]
        news = [line for line in lines if not says(given, line)]
        if news and all(_is_told(instruction, line) for line in news):
            return f"turn {turn + 1} says what {last.step.call} answers: {', '.join(news)}"
    return ""


def _is_told(instruction: str, line: str) -> bool:
    number = as_number(line)
    if number is not None:
        return number in digits(instruction)
    return len(line) > 1 and says(instruction, line)


def _is_used(each: Done, later: Sequence[Done], said: str) -> bool:
    answer = plain(each.step.observed.result)
    values = (value for other in later for value in _values(other))
    return any(
        len(str(value)) > 1 and shows(answer, value) and not says(said, value) for value in values
    )


def _is_named(each: Done, beside: Sequence[Done], body: ToolTask) -> bool:
    """Return whether the instruction says a value that only this call of the turn takes.

    Or a file's name without its ending; or the call is the turn's last, and takes what the answers
    before it show.
    """
    others = {str(value) for other in beside for value in _values(other)}
    instruction = asked_in(body, each.turn)
    own = [
        str(value) for value in _values(each) if len(str(value)) > 1 and str(value) not in others
    ]
    if any(says(instruction, value) or says(instruction, _stem(value)) for value in own):
        return True
    answers = "\n".join(plain(other.step.observed.result) for other in beside)
    is_last = all(other.place < each.place for other in beside)
    return is_last and any(shows(answers, value) for value in own)


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _values(each: Done) -> Iterator[object]:
    for argument in each.read.arguments:
        yield from leaves(argument.value)


def _is_meant(each: Done, body: ToolTask) -> bool:
    spoken = _stems(asked_in(body, each.turn))
    return bool(spoken & (_own_words(body.classes)[each.read.tool] | set(_keys(each))))


def _keys(each: Done) -> Iterator[str]:
    try:
        answer = json.loads(each.step.observed.result)
    except (ValueError, RecursionError):
        return
    if isinstance(answer, dict):
        yield from _stems(" ".join(cast("dict[str, object]", answer)))


@cache
def _own_words(classes: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    """Return the words of each tool's name and documentation that few tools share."""
    texts = {
        name: _stems(f"{name} {document.description.rpartition('Tool description: ')[2]}")
        for name, document in tools_of(classes).items()
    }
    shared = Counter(word for found in texts.values() for word in found)
    most = max(COMMON, COMMON_SHARE * len(texts))
    return {
        name: frozenset(word for word in found if shared[word] <= most)
        for name, found in texts.items()
    }


def _stems(text: str) -> frozenset[str]:
    """Return the content words of a text without their endings."""
    found = (word for word in words(text).split() if word not in _STOP and len(word) > 1)
    return frozenset(re.sub(r"(?:ations?|ing|ed|es|s|e)$", "", word) or word for word in found)

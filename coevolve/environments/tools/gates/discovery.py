"""What the policy can find out: the answers of reading calls that it could make.

Before a call of the reference, every tool whose arguments are known is called in a fresh world at
that point. Of the tools that never change the world there, the answers count as knowable. A second
round uses the names in the first round's answers. The number of calls is bounded, so a value may be
missed; then the gates refuse a sound candidate, and admit no unsound one.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.environments.tools.commands import TriedTurn
from coevolve.environments.tools.gates.forms import plain, plain_values
from coevolve.environments.tools.gates.reading import Argument, ReadCall
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.gates.wording import quotations, values_of
from coevolve.environments.tools.toolset import ToolDocument

MAX_VALUES = 40
"""Maximum number of values tried for one parameter."""

MAX_CALLS_OF_A_TOOL = 40
MAX_CALLS = 400
"""Maximum reading calls of one round."""

MAX_VALUE_CHARS = 60

FIRST_PORTIONS = (1, 2, 4)
"""Calls of a tool after which the world is looked at; then after the last one."""

_NAME = re.compile(r"[A-Z][\w'&-]*(?:\s+[A-Z][\w'&-]*)+|[#@]?\w[\w.@/:-]*\w|\w")
_INTEGERS = frozenset({"integer"})
_NUMBERS = frozenset({"number", "float"})


class Known(NamedTuple):
    """What the policy knows before a call."""

    calls: Sequence[ReadCall]
    """The calls of the reference so far."""

    said: str
    """The instructions so far."""

    answers: Sequence[str]
    """The answers to the calls so far."""

    withheld: frozenset[str] = frozenset()
    """Tools that do not exist yet."""


class Shown(NamedTuple):
    """The answer to a reading call."""

    takes: tuple[object, ...]
    """The values that the call takes; none if the answer does not depend on them."""

    values: tuple[str, ...]
    """The plain values of the answer that the call does not take."""

    @property
    def text(self) -> str:
        """The values as one text."""
        return "\n".join(self.values)


class Discovery:
    """The reading calls of one candidate; the answers at each point are computed once."""

    def __init__(self, trials: Trials, tools: Mapping[str, ToolDocument]) -> None:
        self._trials = trials
        self._tools = tools
        self._changing: set[str] = set()
        """Tools that changed the world once."""

        self._shown: dict[tuple[int, int], tuple[Shown, ...]] = {}

    async def shown(self, known: Known) -> tuple[Shown, ...]:
        """Return the answers that reading calls give at this point."""
        point = len(known.calls), len(known.said)
        if point not in self._shown:
            self._shown[point] = await self._explored(known)
        return self._shown[point]

    async def _explored(self, known: Known) -> tuple[Shown, ...]:
        before = [call.text() for call in known.calls]
        values = _usable(
            *values_of(reversed(known.calls)), *_names(known.said), *_from_answers(known.answers)
        )
        first = await self._answers(before, known.withheld, values)
        fresh = _usable(*_from_answers([answer.text for answer in first]))
        more = [value for value in fresh if value not in values]
        second = await self._answers(before, known.withheld, more) if more else ()
        return (*first, *second)

    async def _answers(
        self, before: Sequence[str], withheld: frozenset[str], values: Sequence[object]
    ) -> tuple[Shown, ...]:
        """Return the answers to the reading calls with these values."""
        while True:
            tried = list(itertools.islice(self._calls(withheld, values), MAX_CALLS))
            of_tools = list(_portions(tried))
            turns = (tuple(before), *(tuple(call.text() for call in calls) for calls in of_tools))
            played = (await self._trials.bare(turns)).turns
            changed = {
                calls[0].tool
                for calls, turn, last in zip(of_tools, played[1:], played, strict=False)
                if turn.state != last.state
            }
            if not changed:
                return tuple(_shown(zip(of_tools, played[1:], strict=True)))
            self._changing |= changed

    def _calls(self, withheld: frozenset[str], values: Sequence[object]) -> Iterator[ReadCall]:
        """Yield calls of the tools with the fewest parameters first."""
        readers = [
            document
            for name, document in self._tools.items()
            if name not in self._changing and name not in withheld
        ]
        for document in sorted(readers, key=lambda each: len(_required(each))):
            yield from itertools.islice(_calls_of(document, values), MAX_CALLS_OF_A_TOOL)


def _portions(calls: Sequence[ReadCall]) -> Iterator[Sequence[ReadCall]]:
    """Yield the calls of each tool in a few portions, so that calls that undo others are seen."""
    for _, of_tool in itertools.groupby(calls, lambda each: each.tool):
        left = list(of_tool)
        for size in (*FIRST_PORTIONS, len(left)):
            if left:
                yield left[:size]
            left = left[size:]


def _shown(played: Iterable[tuple[Sequence[ReadCall], TriedTurn]]) -> Iterator[Shown]:
    """Yield the answers that are no errors.

    If a tool always answers the same, its answers do not count as those to its arguments.
    """
    by_tool: defaultdict[str, list[Shown]] = defaultdict(list)
    for calls, turn in played:
        for call, observed in zip(calls, turn.observed, strict=True):
            if not observed.failed:
                takes = tuple(values_of([call]))
                by_tool[call.tool].append(Shown(takes, _news(takes, observed.result)))
    for answers in by_tool.values():
        constant = len(answers) > 1 and len({answer.values for answer in answers}) == 1
        yield from ([Shown((), answers[0].values)] if constant else answers)


def _news(takes: Sequence[object], result: str) -> tuple[str, ...]:
    """Return the plain values of an answer that its call does not take."""
    given = set(map(str, takes))
    return tuple(each for each in plain_values(result) if each.strip() and each not in given)


def _required(document: ToolDocument) -> Sequence[str]:
    return document.parameters.get("required", ())


def _calls_of(document: ToolDocument, values: Sequence[object]) -> Iterator[ReadCall]:
    """Yield calls of a tool with its required parameters."""
    parameters: Mapping[str, Any] = document.parameters["properties"]
    required = _required(document)
    for chosen in itertools.product(*(_options(parameters[name], values) for name in required)):
        arguments = zip(required, chosen, strict=True)
        yield ReadCall(document.name, tuple(itertools.starmap(Argument, arguments)))


def _options(parameter: Mapping[str, Any], values: Sequence[object]) -> Sequence[object]:
    kind = str(parameter.get("type", ""))
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float)]
    if kind == "boolean":
        return [True, False]
    if kind == "string":
        return list(dict.fromkeys([*quotations(parameter.get("description", "")), *texts]))[
            :MAX_VALUES
        ]
    if kind in _INTEGERS:
        return [number for number in numbers if isinstance(number, int)][:MAX_VALUES]
    if kind in _NUMBERS:
        return list(numbers[:MAX_VALUES])
    return [[text] for text in texts[:MAX_VALUES]] if kind == "array" else []


def _names(said: str) -> Iterator[object]:
    """Yield what may be names in the instructions, the likeliest of the latest first."""
    for line in reversed(said.split("\n")):
        words = [word for found in _NAME.findall(line) for word in _endings(found)]
        for word in (*quotations(line), *sorted(words, key=_is_plain)):
            yield int(word) if word.isdigit() else word
            if f"{word}." in line:
                yield f"{word}."


def _endings(name: str) -> Iterator[str]:
    """Yield a name, and the name without its first words, which may begin the sentence."""
    parts = name.split()
    for first in range(len(parts)):
        yield " ".join(parts[first:])


def _is_plain(word: str) -> bool:
    return word.isalpha() and word.islower()


def _from_answers(answers: Sequence[str]) -> Iterator[object]:
    """Yield the names and numbers in answers, the latest first."""
    for answer in reversed(answers):
        for line in plain(answer).split("\n"):
            if line.isdigit():
                yield int(line)
            yield line
            yield line.rpartition("/")[2]


def _usable(*values: object) -> list[object]:
    """Return the short values, each once."""
    short = (value for value in values if 0 < len(str(value)) <= MAX_VALUE_CHARS)
    return list(dict.fromkeys(value for value in short if value is not None))

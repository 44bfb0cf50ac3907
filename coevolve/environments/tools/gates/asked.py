"""What a turn asks for, in whatever words and language: the calls of its reference.

Words cannot tell a held-out request that was thanked for or translated from a new one; its calls
can. But in a small world two honest tasks often need the same one or two calls. What tells them
apart is the wording, which is the instruction without its values: a task that is worded as one of
the given tasks is compared by words and calls as ever (`tools.gates.similarity`). In other words,
a task *asks the same* as a given one

- if it makes the same calls with the same names, in any order and in whatever turns;
- or if it does under other names, consistently changed, and there are more than `MAX_HONEST` of
  these calls and of these names, or its words are of another language than the given tasks'.

Fewer calls under other names are another task for the same skill, not a leak. A single turn that
asks the same as a given one also needs most of its words, unless it is in another language.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from coevolve.environments.tools.gates.forms import says
from coevolve.environments.tools.gates.reading import Argument, ReadCall, leaves
from coevolve.environments.tools.wordings import SLOT

MAX_HONEST = 2
"""Calls up to which tasks with other names and the same calls are no leak. On the quickstart, of
tasks that were drawn independently, 88 % with one call, 42 % with two, 10 % with three, and 3 %
with four share the form of a held-out one."""

FOREIGN = 0.2
"""Share of the words below which a wording is of another language than the given ones."""

MIN_WORDS = 90
"""Different words of given tasks from which on their language is known."""

SAME_WORDS = 0.7
"""Share of a given turn's words that a turn has which only thanks for it, or asks politely."""

_WORD = re.compile(r"[^\W\d_]+")


class Asked(NamedTuple):
    """What one turn asks for, or all turns of a task together."""

    wordings: tuple[str, ...]
    """The instructions without their values."""

    calls: frozenset[str]
    """Calls that name something; equal ones have numbers."""

    names: int
    """Number of different names in them that the user said."""

    form: str
    """The calls under any names: equal for equal calls whose names were changed consistently."""


def asked_by(wordings: Iterable[str], calls: Sequence[ReadCall], said: str) -> Asked:
    """Return what is asked with these calls; those that name nothing are left out.

    A name that the user has not ``said`` is the world's, and counts as any other one.
    """
    named = [_as_said(call, said) for call in calls if any(map(is_name, _values(call)))]
    names = {str(value) for call in named for value in _values(call) if is_name(value)}
    calls_said = frozenset(numbered(map(_folded, named)))
    return Asked(tuple(wordings), calls_said, len(names), _form(named))


def is_name(value: object) -> bool:
    """Return whether a value means something outside its world."""
    return len(str(value).strip("./")) > 1


class GivenTurns:
    """The turns of given tasks, by what they ask for."""

    def __init__(self) -> None:
        self._calls: defaultdict[frozenset[str], set[tuple[str, int]]] = defaultdict(set)
        self._forms: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        self._turns: dict[tuple[str, int], Asked] = {}
        self._wordings = Counter[str]()
        self._words = Counter[str]()

    def count(self, place: tuple[str, int], given: Asked, number: int) -> None:
        """Add a turn (``number`` 1) under its task's key and its own number, or remove it (-1)."""
        for wording in given.wordings:
            self._wordings[wording] += number
            for word in _words(wording):
                self._words[word] += number
        change = set[tuple[str, int]].add if number > 0 else set[tuple[str, int]].discard
        change(self._calls[given.calls], place)
        change(self._forms[given.form], place)
        self._turns[place] = given

    def same(self, turn: Asked, *, alone: bool) -> Iterator[tuple[str, int]]:
        """Yield the turns that ask the same as ``turn``, if that is in words of its own.

        ``alone``: it is one turn, and not all turns of a task.
        """
        others = [each for each in turn.wordings if not self._wordings[each]]
        if not turn.calls or not others:
            return
        foreign = all(map(self._is_foreign, others))
        for place in self._calls.get(turn.calls, ()):
            if not alone or foreign or _has_words(turn, self._turns[place]):
                yield place
        if min(len(turn.calls), turn.names) > MAX_HONEST or foreign:
            yield from self._forms.get(turn.form, ())

    def _is_foreign(self, wording: str) -> bool:
        words, given = _words(wording), +self._words
        known = sum(each in given for each in words)
        return len(given) >= MIN_WORDS and known < FOREIGN * len(words)


def _has_words(turn: Asked, given: Asked) -> bool:
    """Return whether a turn has most words of a given one."""
    wanted = set[str]().union(*map(_words, given.wordings))
    found = set[str]().union(*map(_words, turn.wordings))
    return len(wanted & found) >= SAME_WORDS * len(wanted)


def _words(wording: str) -> set[str]:
    return set(_WORD.findall(wording))


def _values(call: ReadCall) -> list[object]:
    return [value for argument in call.arguments for value in leaves(argument.value)]


def _as_said(call: ReadCall, said: str) -> ReadCall:
    """Return a call with a slot for each text that the user has not said, in a fixed order."""
    return ReadCall(
        call.tool,
        tuple(
            Argument(name, SLOT)
            if isinstance(value, str) and is_name(value) and not says(said, value)
            else Argument(name, value)
            for name, value in sorted(call.arguments, key=lambda argument: argument.name)
        ),
    )


def _folded(call: ReadCall) -> str:
    """Return a call in which neither case nor the dots and slashes around a path matter."""
    return call.text().casefold().replace("'./", "'").replace("/'", "'")


def _form(calls: Sequence[ReadCall]) -> str:
    """Return the calls with each name replaced by all places that it has in them."""
    places: defaultdict[object, list[str]] = defaultdict(list)
    for call in calls:
        for argument, value in _arguments(call):
            places[value].append(f"{call.tool}.{argument}")
    roles = {value: ",".join(sorted(found)) for value, found in places.items()}
    texts = sorted(
        f"{call.tool}({[(name, roles[value]) for name, value in _arguments(call)]})"
        for call in calls
    )
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def _arguments(call: ReadCall) -> Iterator[tuple[str, str]]:
    """Yield the arguments that name something; other values are a part of the argument's name."""
    for argument in call.arguments:
        for value in leaves(argument.value):
            if is_name(value) and not isinstance(value, bool):
                yield argument.name, str(value)
            else:
                yield f"{argument.name}={value!r}", ""


def numbered(texts: Iterable[str]) -> Iterator[str]:
    """Yield each text with its number of occurrences so far, so that equal ones differ."""
    seen = Counter[str]()
    for text in texts:
        seen[text] += 1
        yield f"{seen[text]} {text}"

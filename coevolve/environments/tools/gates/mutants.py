"""Mutants of a reference, which a task's verifier has to tell from the reference itself.

A verifier that accepts a mutant rewards a policy that did not do what the instruction asks:
nothing, less, the same in another order, or the same with other values.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from coevolve.environments.tools.gates.reading import Argument, Read, ReadCall

Turns = tuple[tuple[str, ...], ...]
"""Calls by turn."""

Mutants = Iterator[Turns]

IDLE = "nothing()"
"""A call that no tool answers; the checker requires some call in a turn, and accepts any."""

MAX_ALTERNATIVES = 4
"""Maximum number of wrong values for one argument."""

_FILE = re.compile(r"[\w-]+(\.\w+)+")


Place = tuple[int, int, int]
"""Where an argument is: its turn, its call within the turn, its position within the call."""


class Slot(NamedTuple):
    """One argument of one call."""

    turn: int
    call: int
    position: int
    tool: str
    argument: Argument

    @property
    def place(self) -> Place:
        """Where the argument is."""
        return self.turn, self.call, self.position


def idle(turns: Turns) -> Mutants:
    """Yield a mutant for each turn with calls, in which that turn does nothing."""
    for turn, calls in enumerate(turns):
        if calls:
            yield _with_turn(turns, turn, (IDLE,))


def hasty(turns: Turns) -> Mutants:
    """Yield a mutant for each turn without calls, in which it makes the next turn's calls.

    The user has not yet said all that these calls need, or a tool of theirs does not exist yet.
    """
    for turn, (calls, following) in enumerate(itertools.pairwise(turns)):
        if following and not calls:
            yield _with_turn(turns, turn, following)


def truncated(turns: Turns) -> Mutants:
    """Yield a mutant without one call, for each call in a turn with several calls."""
    for turn, calls in enumerate(turns):
        for dropped in range(len(calls) if len(calls) > 1 else 0):
            yield _with_turn(turns, turn, (*calls[:dropped], *calls[dropped + 1 :]))


def reordered(turns: Turns) -> Mutants:
    """Yield a mutant for each two neighbouring, different calls of a turn, with both swapped."""
    for turn, calls in enumerate(turns):
        for first in range(len(calls) - 1):
            one, other = calls[first : first + 2]
            if one != other:
                yield _with_turn(turns, turn, (*calls[:first], other, one, *calls[first + 2 :]))


def slots(read: Read) -> tuple[Slot, ...]:
    """Return every argument of a reference."""
    return tuple(
        Slot(turn, number, position, call.tool, argument)
        for turn, calls in enumerate(read)
        for number, call in enumerate(calls)
        for position, argument in enumerate(call.arguments)
    )


def wrong_values(slot: Slot, every: Sequence[Slot], names: Sequence[str]) -> tuple[object, ...]:
    """Return one to `MAX_ALTERNATIVES` plausible values other than the slot's own.

    For text these are values of the same parameter in the reference, then names of the same kind in
    the
    world (``names``), and last a changed form of the text.
    """
    value = slot.argument.value
    if not isinstance(value, str):
        return tuple(_others(value))[:MAX_ALTERNATIVES]
    used = [
        other.argument.value
        for other in every
        if other.argument.name == slot.argument.name and isinstance(other.argument.value, str)
    ]
    alike = [name for name in names if kind_of(name) == kind_of(value)]
    seen = [other for other in dict.fromkeys((*used, *alike)) if other != value]
    return (*seen[: MAX_ALTERNATIVES - 1], _changed(value))


def with_value(turns: Turns, read: Read, slot: Slot, value: object) -> Turns:
    """Return ``turns`` with another value in one slot."""
    call = read[slot.turn][slot.call].with_value(slot.position, value)
    return with_call(turns, slot.turn, slot.call, call)


def with_call(turns: Turns, turn: int, place: int, call: ReadCall) -> Turns:
    """Return ``turns`` with another call at one place."""
    calls = turns[turn]
    return _with_turn(turns, turn, (*calls[:place], call.text(), *calls[place + 1 :]))


def _with_turn(turns: Turns, turn: int, calls: tuple[str, ...]) -> Turns:
    return (*turns[:turn], calls, *turns[turn + 1 :])


def _others(value: object) -> Iterator[object]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from dict.fromkeys(
                other for other in (value + 1, value - 1, 1, 2 * value) if other != value
            )
        case list() | tuple():
            yield from _other_sequences(list(cast("Sequence[object]", value)))
        case dict():
            yield from _other_dicts(cast("dict[object, object]", value))
        case str():
            yield _changed(value)
        case _:
            yield "something"


def _other_sequences(items: list[object]) -> Iterator[object]:
    if not items:
        yield ["something"]
        return
    yield items[:-1]
    for other in _others(items[0]):
        yield [other, *items[1:]]


def _other_dicts(entries: dict[object, object]) -> Iterator[object]:
    if not entries:
        yield {"something": 1}
        return
    key, value = next(iter(entries.items()))
    for other in _others(value):
        yield entries | {key: other}
    yield {name: entry for name, entry in entries.items() if name != key}


def kind_of(text: str) -> str:
    """Return what a text looks like: a file, a number, several words or one."""
    if _FILE.fullmatch(text):
        return "file"
    if text.isdigit():
        return "number"
    return "text" if " " in text else "word"


def _changed(text: str) -> str:
    if _FILE.fullmatch(text):
        stem, _, suffix = text.partition(".")
        return f"{stem}2.{suffix}"
    return f"{text} too" if " " in text else f"{text}2"

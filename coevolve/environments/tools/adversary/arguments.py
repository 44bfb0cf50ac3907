"""Other values for the arguments of a reference, and whether a task says which value is right.

A tool that checks its arguments refuses most values. So values come from where it takes them: its
schema's own list, the same parameter in other tasks, and the world with the keys of its objects.
A value that the instruction also says is left out, because either may be right.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, cast

import msgspec

from coevolve.base.in_turn import in_turn
from coevolve.environments.tools.gates.mutants import Slot, kind_of, wrong_values
from coevolve.environments.tools.gates.reading import Read, tools_of
from coevolve.environments.tools.gates.worlds import names as names_in
from coevolve.environments.tools.task import ToolTask, asked_in
from coevolve.environments.tools.vocabulary import mentions

MOST_VALUES = 12
"""Maximum number of other values that are tried for one argument."""

MOST_OF_A_SOURCE = 6

LEAST_CHARS = 3
"""A shorter text is part of many words."""

FAR = 10
"""How many times as large a number is that no tolerance takes for the right one."""

Parameter = tuple[str, str]
"""A tool and the name of its parameter."""


class Variants(NamedTuple):
    """One argument of a reference, and what could stand in its place."""

    slot: Slot
    others: Sequence[object]
    said: bool
    """Whether the instruction says the value, or an answer to an earlier call of the reference."""

    listed: bool
    """Whether the schema lists all values."""

    @property
    def parameter(self) -> Parameter:
        """The tool and its parameter."""
        return self.slot.tool, self.slot.argument.name


class OtherValues:
    """The values that the arguments of a set of tasks have."""

    def __init__(self, bodies: Sequence[ToolTask], read: Sequence[Read]):
        self._bodies = bodies
        self._taken: dict[Parameter, dict[str, object]] = {}
        for call in chain.from_iterable(chain.from_iterable(read)):
            for argument in call.arguments:
                known = self._taken.setdefault((call.tool, argument.name), {})
                known.setdefault(repr(argument.value), argument.value)

    def values(self, body: ToolTask, parameter: Parameter) -> list[object]:
        """Return the values that a parameter has in all tasks, and those that its schema lists."""
        listed = {repr(value): value for value in _listed(body, *parameter)}
        return [*(listed | self._taken.get(parameter, {})).values()]

    def variants(self, body: ToolTask, every: Sequence[Slot]) -> Iterator[Variants]:
        """Yield each argument of a reference that has other values."""
        told = list(_answers(body))
        in_world = names_in(body)
        for slot in every:
            asked = asked_in(body, slot.turn)
            found = self._others(body, slot, every, in_world)
            others = [each for each in found if not says(asked, each)]
            if others:
                earlier = (answer for place, answer in told if place < slot.place[:2])
                value = slot.argument.value
                said = says(asked, value) or any(_tells(each, value, asked) for each in earlier)
                listed = bool(_listed(body, slot.tool, slot.argument.name))
                yield Variants(slot, others, said, listed)

    def _others(
        self, body: ToolTask, slot: Slot, every: Sequence[Slot], in_world: Sequence[str]
    ) -> Iterator[object]:
        """Yield values that differ from the slot's, from each source in turn."""
        value = slot.argument.value
        listed = _listed(body, slot.tool, slot.argument.name)
        sources: tuple[Sequence[object], ...] = (listed,)
        if not listed:
            taken = self._taken[slot.tool, slot.argument.name].values()
            alike = (each for each in taken if type(each) is type(value) and each != value)
            world = _alike(value, in_world)
            sources = world, [*islice(alike, MOST_OF_A_SOURCE)], _wrong(slot, every)
        seen = {repr(value)}
        for other in islice(in_turn(*sources), MOST_VALUES):
            if repr(other) not in seen:
                seen.add(repr(other))
                yield other


def says(text: str, value: object) -> bool:
    """Return whether a text says a value, which no truth value is; short ones as whole words."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    names = {str(value).strip().casefold()}
    if isinstance(value, float) and value.is_integer():
        names.add(str(int(value)))
    folded = text.casefold()
    found = [name for name in names if name and name in folded]
    return any(_is_part_of_words(name) or mentions(folded, name) for name in found)


def _is_part_of_words(name: str) -> bool:
    """Return whether a name counts inside a longer word, as in ``bolts``; numbers do not."""
    return len(name) >= LEAST_CHARS and any(map(str.isalpha, name))


def _tells(answer: object, value: object, asked: str) -> bool:
    """Return whether an answer is the value, or has it in an object that the task means.

    An object is meant if it is the whole answer, or if the task says another value in it.
    """
    return _is(answer, value) or _holds(answer, value, asked, whole=True)


def _holds(answer: object, value: object, asked: str, *, whole: bool) -> bool:
    match answer:
        case dict():
            entries = cast("dict[str, object]", answer)
            of = [name for name, each in entries.items() if _is(each, value)]
            others = (each for name, each in entries.items() if name not in of)
            meant = whole or any(says(asked, each) for each in chain(of, others))
            return bool(of and meant) or any(
                _holds(each, value, asked, whole=False) for each in entries.values()
            )
        case list():
            items = cast("list[object]", answer)
            return any(_holds(each, value, asked, whole=False) for each in items)
        case _:
            return False


def _is(answer: object, value: object) -> bool:
    return not isinstance(value, bool) and (answer == value or str(answer) == str(value))


def _answers(body: ToolTask) -> Iterator[tuple[tuple[int, int], object]]:
    """Yield each recorded answer of the reference, read as JSON if it is, with its place."""
    for number, turn in enumerate(body.turns):
        for place, result in enumerate(turn.results):
            try:
                yield (number, place), msgspec.json.decode(result)
            except msgspec.MsgspecError:
                yield (number, place), result


def _listed(body: ToolTask, tool: str, parameter: str) -> Sequence[object]:
    """Return the only values that the schema of a parameter allows; empty if it lists none."""
    document = tools_of(body.classes).get(tool)
    properties: dict[str, dict[str, Any]] = document.parameters["properties"] if document else {}
    schema = properties.get(parameter, {})
    definitions: dict[str, dict[str, Any]] = schema.get("$defs", {})
    choices: list[dict[str, Any]] = schema.get("anyOf", [])
    for each in (schema, *choices):
        named = definitions.get(str(each.get("$ref", "")).rpartition("/")[2], each)
        if "enum" in named:
            return named["enum"]
    return ()


def _alike(value: object, in_world: Sequence[str]) -> list[object]:
    """Return the texts in a world that are of the value's kind, or its numbers."""
    if isinstance(value, str):
        found: Iterator[object] = (each for each in in_world if kind_of(each) == kind_of(value))
    elif isinstance(value, int) and not isinstance(value, bool):
        found = (int(each) for each in in_world if each.isdecimal())
    else:
        found = iter(())
    return [*islice((each for each in found if each != value), MOST_OF_A_SOURCE)]


def _wrong(slot: Slot, every: Sequence[Slot]) -> Sequence[object]:
    """Return plausible wrong values, and for a number one that is far away."""
    value = slot.argument.value
    far = isinstance(value, int | float) and not isinstance(value, bool)
    more = [FAR * cast("float", value) + FAR] if far else []
    return [*more, *wrong_values(slot, every, ())]

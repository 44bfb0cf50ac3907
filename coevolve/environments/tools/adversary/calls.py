"""Calls that are not those of a task: of other tools, of other tasks, and with other arguments.

Calls that include the task's reference are left out: they do what it asks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from coevolve.base.in_turn import in_turn
from coevolve.environments.tools.adversary.arguments import OtherValues, Parameter, Variants
from coevolve.environments.tools.adversary.probes import Attempt, Turns
from coevolve.environments.tools.adversary.words import fields_of
from coevolve.environments.tools.calls import NotACallError, RefusedCallError
from coevolve.environments.tools.gates.mutants import IDLE, Slot, slots, wrong_values
from coevolve.environments.tools.gates.reading import (
    Argument,
    Read,
    ReadCall,
    read_call,
    tools_of,
    written,
)
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.toolset import ToolDocument

MOST = 12
"""Maximum number of other tools that are tried on a task; of each other kind it is half of it."""

MOST_TASKS = 100
"""Number of tasks whose references are tried on one, as far as there is room: the next ones."""

MADE: tuple[Mapping[str, object], ...] = tuple(
    {
        **{"string": text, "integer": number, "number": number, "float": float(number)},
        **{"boolean": number == 1, "array": [], "object": {}, "dict": {}},
    }
    for text, number in (("a", 1), ("b", 2))
)
"""Two arguments of each type, for a tool that no reference calls; one may be right by chance."""

Place = tuple[int, int]
"""A turn, and a call's place in it."""


class Changed(NamedTuple):
    """A reference with other values in one argument."""

    variants: Variants
    attempts: Sequence[Attempt]

    @property
    def place(self) -> Place:
        """The turn of the call that has the argument, and the call's place in the turn."""
        return self.variants.slot.turn, self.variants.slot.call


class Calls(NamedTuple):
    """The calls that are tried on one task."""

    reference: Attempt
    """Its own calls, for comparison."""

    other_tools: Sequence[Attempt]
    """With tools that its reference does not use, among them those that only read."""

    fields: Sequence[Attempt]
    """With its own fields as arguments."""

    same_tools: Sequence[Attempt]
    """With its reference's tools, and other arguments throughout."""

    parts: Mapping[Place, Attempt]
    """All of its reference but one call, by the turn of this call and its place in the turn."""

    arguments: Sequence[Changed]
    """With one argument of its reference changed."""


class OtherCalls:
    """The calls to try on each task of a set."""

    def __init__(self, bodies: Sequence[ToolTask], words: str, most: int = MOST) -> None:
        """Try at most ``most`` calls of a kind on a task, ended by ``words``."""
        self._bodies = bodies
        self._words = words
        self._most = most
        self._read = list(map(_read, bodies))
        self._examples: dict[str, list[tuple[ReadCall, str]]] = {}
        for body, turns in zip(bodies, self._read, strict=True):
            for call in chain.from_iterable(turns):
                self._examples.setdefault(call.tool, []).append((call, body.world))
        self._values = OtherValues(bodies, self._read)

    def calls(self, number: int) -> Calls:
        """Return the calls to try on task ``number``."""
        body, own = self._bodies[number], self._read[number]
        used = set(_tools(own))
        seen = {written(own)}

        def fresh(found: Iterator[Read], most: int) -> list[Attempt]:
            """Return the first attempts that were not seen, and do not include the reference."""
            new = (
                Attempt(turns, self._words)
                for turns in map(written, found)
                if turns not in seen and not seen.add(turns) and not _includes(turns, own)
            )
            return list(islice(new, most))

        alike, others = self._references(number)
        half = max(self._most // 2, 1)
        return Calls(
            reference=Attempt(body.references, self._words),
            other_tools=[
                *fresh(self._other_tools(number, used), self._most),
                *fresh(others, half),
            ],
            same_tools=fresh(in_turn(alike, _mutants(own)), half),
            fields=fresh(self._with_fields(body), half),
            parts=dict(islice(self._parts(own), half)),
            arguments=[*islice(self._arguments(body, own), half)],
        )

    def renamed(self, number: int) -> list[Attempt]:
        """Return the task's reference with the values of a parameter exchanged throughout.

        Each becomes another one that the parameter has in some task, or the opposite number. If the
        reference has one tool, its calls in the opposite order are tried, too.
        """
        body, own = self._bodies[number], self._read[number]
        seen = {written(own)}
        found = map(written, self._renamed(body, own))
        new = (turns for turns in found if turns not in seen and not seen.add(turns))
        return [Attempt(turns, self._words) for turns in islice(new, self._most)]

    def _renamed(self, body: ToolTask, own: Read) -> Iterator[Read]:
        parameters = dict.fromkeys((each.tool, each.argument.name) for each in slots(own))
        for parameter in parameters:
            values = self._values.values(body, parameter)
            shown = list(map(repr, values))
            for shift in range(1, len(values)):
                moved = dict(zip(shown, values[shift:] + values[:shift], strict=True))
                yield _exchanged(own, parameter, moved)
            if all(isinstance(value, int | float) for value in values):
                opposite = dict(zip(shown, (-cast("float", each) for each in values), strict=True))
                yield _exchanged(own, parameter, opposite)
        if len(set(_tools(own))) == 1:
            yield [[*reversed(calls)] for calls in own]

    def _parts(self, own: Read) -> Iterator[tuple[Place, Attempt]]:
        """Yield the reference without each of its calls, unless it has only one."""
        if sum(map(len, own)) > 1:
            for turn, calls in enumerate(own):
                for place in range(len(calls)):
                    yield (turn, place), Attempt(written(_without(own, turn, place)), self._words)

    def _arguments(self, body: ToolTask, own: Read) -> Iterator[Changed]:
        """Yield each argument of the reference with its other values, those that are said first."""
        found = self._values.variants(body, slots(own))
        for variants in sorted(found, key=lambda each: not each.said):
            changed = (_with_value(own, variants.slot, value) for value in variants.others)
            yield Changed(variants, [Attempt(written(each), self._words) for each in changed])

    def _references(self, number: int) -> tuple[Iterator[Read], Iterator[Read]]:
        """Return references of other tasks that use the same tools, and those that do not."""
        own, turns = _tools(self._read[number]), len(self._bodies[number].turns)
        count = len(self._read)
        places = (place % count for place in range(number + 1, number + min(count, MOST_TASKS)))
        others = [self._read[place] for place in places if any(self._read[place])]
        alike = (_spread(each, turns) for each in others if _tools(each) == own)
        return alike, (_spread(each, turns) for each in others if _tools(each) != own)

    def _other_tools(self, number: int, used: set[str]) -> Iterator[Read]:
        """Yield calls of each other tool, with arguments from other tasks, or made up.

        The first tool differs from task to task.
        """
        body = self._bodies[number]
        names = [name for name in tools_of(body.classes) if name not in used]
        first = number % max(len(names), 1)
        for name in (*names[first:], *names[:first]):
            known = self._examples.get(name, ())
            alike = (call for call, world in known if world == body.world)
            if known:
                chosen = [next(alike, known[number % len(known)][0])]
            else:
                chosen = [_made(tools_of(body.classes)[name], made) for made in MADE]
            yield from ([[call]] * len(body.turns) for call in chosen)

    def _with_fields(self, body: ToolTask) -> Iterator[Read]:
        """Yield calls of each tool with an argument that is the instruction, or a field.

        The first one is the instruction, which no task asks for.
        """
        for value in (body.turns[-1].instruction, *fields_of(body).values)[: self._most]:
            for document in tools_of(body.classes).values():
                call = _made(document, {**MADE[0], "string": value})
                if any(argument.value == value for argument in call.arguments):
                    yield [[call]] * len(body.turns)


def no_call(body: ToolTask) -> Attempt:
    """Return an attempt that calls a tool that does not exist."""
    return Attempt(((IDLE,),) * len(body.turns))


def tools_in(attempt: Attempt) -> set[str]:
    """Return the names of the tools that an attempt calls."""
    return {call.partition("(")[0] for calls in attempt.turns for call in calls}


def _read(body: ToolTask) -> list[list[ReadCall]]:
    """Return the reference by turn; empty if it is none that can be read."""
    tools = tools_of(body.classes)
    try:
        return [[_normal(read_call(call, tools)) for call in calls] for calls in body.references]
    except (NotACallError, RefusedCallError):
        return [[] for _ in body.turns]


def _normal(call: ReadCall) -> ReadCall:
    """Return the call with its arguments by name, whatever their order was."""
    return ReadCall(call.tool, tuple(sorted(call.arguments, key=lambda each: each.name)))


def _tools(turns: Read) -> list[str]:
    return sorted(call.tool for call in chain.from_iterable(turns))


def _spread(calls: Read, turns: int) -> Read:
    """Return calls by turn in ``turns`` turns: the last one repeats, or takes all the rest."""
    if len(calls) <= turns:
        return [*calls, *([calls[-1]] * (turns - len(calls)))]
    return [*calls[: turns - 1], list(chain.from_iterable(calls[turns - 1 :]))]


def _includes(turns: Turns, own: Read) -> bool:
    """Return whether the turns make every call of the reference, in the reference's turns."""
    wanted = written(own)
    return any(wanted) and all(
        not Counter(reference) - Counter(calls)
        for reference, calls in zip(wanted, turns, strict=True)
    )


def _mutants(own: Read) -> Iterator[Read]:
    """Yield the reference with another value in every argument."""
    every = slots(own)
    for variant in range(2 if every else 0):
        mutant = own
        for slot in every:
            values = wrong_values(slot, every, ())
            mutant = _with_value(mutant, slot, values[-1 - variant % len(values)])
        yield mutant


def _with_value(turns: Read, slot: Slot, value: object) -> Read:
    changed = [list(calls) for calls in turns]
    call = changed[slot.turn][slot.call]
    changed[slot.turn][slot.call] = call.with_value(slot.position, value)
    return changed


def _without(turns: Read, turn: int, place: int) -> Read:
    """Return the reference without one call."""
    left = [list(calls) for calls in turns]
    del left[turn][place]
    return left


def _exchanged(turns: Read, parameter: Parameter, values: Mapping[str, object]) -> Read:
    """Return the calls with the values of a parameter replaced, found by their texts."""
    tool, name = parameter
    return [
        [
            ReadCall(
                call.tool,
                tuple(
                    Argument(each.name, values[repr(each.value)])
                    if call.tool == tool and each.name == name
                    else each
                    for each in call.arguments
                ),
            )
            for call in calls
        ]
        for calls in turns
    ]


def _made(document: ToolDocument, values: Mapping[str, object]) -> ReadCall:
    """Return a call with made-up arguments: a value of each type for what is required."""
    properties: dict[str, dict[str, Any]] = document.parameters["properties"]
    required = document.parameters.get("required", list(properties))
    arguments = (
        Argument(name, _argument(properties[name], values))
        for name in sorted(properties)
        if name in required
    )
    return ReadCall(document.name, tuple(arguments))


def _argument(schema: Mapping[str, Any], values: Mapping[str, object]) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    return values.get(str(schema.get("type", "string")), "a")

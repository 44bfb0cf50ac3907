"""Calls that are not those of a task: of other tools, of other tasks, and with other arguments.

Calls that include the task's reference are left out: they do what it asks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

from coevolve.environments.tools.adversary.probes import Attempt, Probe, Turns
from coevolve.environments.tools.adversary.words import fields_of
from coevolve.environments.tools.calls import NotACallError, RefusedCallError
from coevolve.environments.tools.gates.mutants import IDLE, Slot, slots, wrong_values
from coevolve.environments.tools.gates.reading import Argument, ReadCall, read_call, tools_of
from coevolve.environments.tools.task import ToolTask, asked_in
from coevolve.environments.tools.toolsets import ToolDocument

MOST = 12
"""Maximum number of other tools that are tried on a task; of each other kind it is half of it."""

MOST_TASKS = 100
"""Number of tasks whose references are tried on one, as far as there is room: the next ones."""

MOST_NAMES = 64
"""Maximum number of texts in references that are tried as other arguments."""

MADE: tuple[Mapping[str, object], ...] = tuple(
    {
        **{"string": text, "integer": number, "number": number, "float": float(number)},
        **{"boolean": number == 1, "array": [], "object": {}, "dict": {}},
    }
    for text, number in (("a", 1), ("b", 2))
)
"""Two arguments of each type, for a tool that no reference calls; one may be right by chance."""

_Read = Sequence[Sequence[ReadCall]]
"""Calls by turn."""


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

    arguments: Sequence[Probe]
    """With one argument of its reference, of which the instruction says the value, changed."""


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
        values = (
            argument.value
            for known in self._examples.values()
            for call, _ in known
            for argument in call.arguments
            if isinstance(argument.value, str)
        )
        self._names = tuple(islice(dict.fromkeys(values), MOST_NAMES))

    def calls(self, number: int) -> Calls:
        """Return the calls to try on task ``number``."""
        body, own = self._bodies[number], self._read[number]
        used = set(_tools(own))
        seen = {_texts(own)}

        def fresh(found: Iterator[_Read], most: int) -> list[Attempt]:
            """Return the first attempts that were not seen, and do not include the reference."""
            new = (
                Attempt(turns, self._words)
                for turns in map(_texts, found)
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
            same_tools=fresh(_interleaved(alike, _mutants(own)), half),
            fields=fresh(self._with_fields(body), half),
            arguments=[*islice(self._arguments(body, own), half)],
        )

    def _arguments(self, body: ToolTask, own: _Read) -> Iterator[Probe]:
        """Yield a probe for each argument of the reference that has several wrong values."""
        every = slots(own)
        for slot in every:
            said = str(slot.argument.value).casefold()
            wrong = wrong_values(slot, every, self._names)
            if len(wrong) > 1 and said and said in asked_in(body, slot.turn).casefold():
                variants = (_with_value(own, slot, value) for value in wrong)
                attempts = [Attempt(_texts(each), self._words) for each in variants]
                kind = f"another {slot.argument.name} of {slot.tool}"
                without = Attempt(_texts(_without(own, slot)), self._words)
                yield Probe(kind, attempts, without, slot.tool)

    def _references(self, number: int) -> tuple[Iterator[_Read], Iterator[_Read]]:
        """Return references of other tasks that use the same tools, and those that do not."""
        own, turns = _tools(self._read[number]), len(self._bodies[number].turns)
        count = len(self._read)
        places = (place % count for place in range(number + 1, number + min(count, MOST_TASKS)))
        others = [self._read[place] for place in places if any(self._read[place])]
        alike = (_spread(each, turns) for each in others if _tools(each) == own)
        return alike, (_spread(each, turns) for each in others if _tools(each) != own)

    def _other_tools(self, number: int, used: set[str]) -> Iterator[_Read]:
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

    def _with_fields(self, body: ToolTask) -> Iterator[_Read]:
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


def _texts(turns: _Read) -> Turns:
    return tuple(tuple(call.text() for call in calls) for calls in turns)


def _tools(turns: _Read) -> list[str]:
    return sorted(call.tool for call in chain.from_iterable(turns))


def _spread(calls: _Read, turns: int) -> _Read:
    """Return calls by turn in ``turns`` turns: the last one repeats, or takes all the rest."""
    if len(calls) <= turns:
        return [*calls, *([calls[-1]] * (turns - len(calls)))]
    return [*calls[: turns - 1], list(chain.from_iterable(calls[turns - 1 :]))]


def _includes(turns: Turns, own: _Read) -> bool:
    """Return whether the turns make every call of the reference, in the reference's turns."""
    wanted = _texts(own)
    return any(wanted) and all(
        not Counter(reference) - Counter(calls)
        for reference, calls in zip(wanted, turns, strict=True)
    )


def _mutants(own: _Read) -> Iterator[_Read]:
    """Yield the reference with another value in every argument."""
    every = slots(own)
    for variant in range(2 if every else 0):
        mutant = own
        for slot in every:
            values = wrong_values(slot, every, ())
            mutant = _with_value(mutant, slot, values[-1 - variant % len(values)])
        yield mutant


def _with_value(turns: _Read, slot: Slot, value: object) -> _Read:
    changed = [list(calls) for calls in turns]
    call = changed[slot.turn][slot.call]
    changed[slot.turn][slot.call] = call.with_value(slot.position, value)
    return changed


def _without(turns: _Read, slot: Slot) -> _Read:
    """Return the reference without the call of a slot: what that says is of no matter then."""
    left = [list(calls) for calls in turns]
    del left[slot.turn][slot.call]
    return left


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


def _interleaved(*kinds: Iterator[_Read]) -> Iterator[_Read]:
    """Yield from all in turn, and then the rest of the longest one."""
    return (each for row in zip_longest(*kinds) for each in row if each is not None)

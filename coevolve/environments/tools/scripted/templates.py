"""Templates of turns, learned from tasks: an instruction and its calls, with slots for values.

A value of a call that the instruction says in the same form is a slot of both; so is a word of a
longer text, such as a query, that the world and the instruction have too. Every other value is a
constant. A turn is no template if its instruction says the value of two different slots, and
neither is an instruction whose other examples have other constants: its words do not tell the
calls.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from coevolve.environments.tools.gates.reading import ReadCall, read_call, tools_of
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.toolset import ToolDocument

Scalar = str | int | float
Place = tuple[str, str]
"""A tool and its parameter; for a word in a text, the call without its values and the slot."""

_MARK = re.compile(r"\x00(\d+)\x00|\x01(\d+)\x01")
"""A slot's number: of a whole value in a call and in an instruction, of a part of a text."""

KEY = "(key)"
"""Ends the path of an object's keys."""

_NUMBER = r"-?\d+(?:\.\d+)?"
_WORD = re.compile(r"\w+")


class Slot(NamedTuple):
    """A value that an instruction and its calls share."""

    place: Place
    """Where a call first takes it."""

    form: int
    """Number of the form in which the instruction says it, see `forms`."""

    is_number: bool


class Template(NamedTuple):
    """A turn without its values."""

    instruction: str
    calls: tuple[str, ...]
    slots: tuple[Slot, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that its calls use, in order."""
        return tuple(call.partition("(")[0] for call in self.calls)

    def said(self, values: Sequence[Scalar]) -> str:
        """Return the instruction with these values."""
        said = [forms(value)[slot.form] for slot, value in zip(self.slots, values, strict=True)]
        return _MARK.sub(lambda mark: said[int(mark[1])], self.instruction)

    def made(self, values: Sequence[Scalar]) -> tuple[str, ...]:
        """Return the calls with these values."""

        def put(mark: re.Match[str]) -> str:
            return repr(values[int(mark[1])]) if mark[1] else repr(values[int(mark[2])])[1:-1]

        return tuple(_MARK.sub(put, call) for call in self.calls)

    def values_said(self, instruction: str) -> tuple[Scalar, ...] | None:
        """Return the values that an instruction says; None if it is not worded so."""
        pattern = _pattern(self.instruction, self.slots)
        found = re.fullmatch(pattern, " ".join(instruction.split()), re.DOTALL)
        if found is None:
            return None
        return tuple(
            _number(found[f"s{n}"]) if slot.is_number else found[f"s{n}"]
            for n, slot in enumerate(self.slots)
        )

    def values_called(self, calls: Sequence[str]) -> tuple[Scalar, ...] | None:
        """Return the values that normal calls take; None if they are not of this template."""
        pattern = _pattern("\n".join(self.calls), self.slots)
        found = re.fullmatch(pattern, "\n".join(calls))
        if found is None:
            return None
        whole = {int(mark[1]) for call in self.calls for mark in _MARK.finditer(call) if mark[1]}
        try:
            texts = [found[f"s{n}"] for n in range(len(self.slots))]
            values = tuple(
                cast("Scalar", ast.literal_eval(text if n in whole else f"'{text}'"))
                for n, text in enumerate(texts)
            )
            return values if self.made(values) == tuple(calls) else None
        except (ValueError, SyntaxError, IndexError):
            return None


class Example(NamedTuple):
    """A turn of a task as its template and the values."""

    template: Template
    values: tuple[Scalar, ...]


def forms(value: Scalar) -> tuple[str, ...]:
    """Return how an instruction may say a value; a form has the same place for all values."""
    text = str(value)
    money = f"{value:.2f}" if isinstance(value, int | float) else text
    return text, text.removesuffix(".0"), money


def normal(calls: Iterable[str], tools: Mapping[str, ToolDocument]) -> tuple[str, ...]:
    """Return calls with named arguments in alphabetical order. Raises ValueError."""
    return tuple(_read(call, tools).text() for call in calls)


def _read(text: str, tools: Mapping[str, ToolDocument]) -> ReadCall:
    call = read_call(text, tools)
    return ReadCall(call.tool, tuple(sorted(call.arguments, key=lambda each: each.name)))


def learned(bodies: Sequence[ToolTask]) -> list[list[Example]]:
    """Return for each task its leading turns that have a template."""
    every = [list(_examples(body)) for body in bodies]
    known: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for example in (each for examples in every for each in examples if each):
        known[example.template.instruction].add(example.template.calls)
    return [list(_leading(examples, known)) for examples in every]


def _leading(
    examples: Iterable[Example | None], known: Mapping[str, set[tuple[str, ...]]]
) -> Iterator[Example]:
    for each in examples:
        if each is None or len(known[each.template.instruction]) > 1:
            return
        yield each


def world_values(body: ToolTask) -> Iterator[tuple[str, Scalar]]:
    """Yield the texts and numbers of a task's world, each with its path and with its field's name.

    The entries of a list share a path; the keys of an object are values, too.
    """
    worlds: dict[str, object] = msgspec.json.decode(body.world, type=dict[str, object])
    for world in worlds.values():
        yield from _below(world, ())


def _below(node: object, path: tuple[str, ...]) -> Iterator[tuple[str, Scalar]]:
    match node:
        case dict():
            for key, value in cast("dict[str, object]", node).items():
                yield from _at((*path, KEY), key)
                yield from _below(value, (*path, key))
        case list():
            for value in cast("list[object]", node):
                yield from _below(value, (*path, "*"))
        case str() | int() | float() if not isinstance(node, bool):
            yield from _at(path, node)
        case _:
            return


def _at(path: tuple[str, ...], value: Scalar) -> Iterator[tuple[str, Scalar]]:
    yield ".".join(path), value
    yield f"{len(path)} {path[-1] if path else ''}", value


def _examples(body: ToolTask) -> Iterator[Example | None]:
    """Yield the template of each turn; None for a turn that has none."""
    words = {
        word
        for path, value in world_values(body)
        if KEY not in path
        for word in _WORD.findall(str(value))
    }
    for turn in body.turns:
        try:
            calls = [_read(call, tools_of(body.classes)) for call in turn.reference]
        except ValueError:
            calls = []
        if not calls or body.withheld:
            yield None
            continue
        writing = _Writing(" ".join(turn.instruction.split()), words)
        yield writing.example(tuple(map(writing.call, calls)))


class _Writing:
    """Puts slots into one turn."""

    def __init__(self, instruction: str, words: set[str]) -> None:
        self._instruction = instruction
        self._words = words
        self._slots: dict[tuple[str, bool], tuple[int, Slot, Scalar]] = {}
        self._places: defaultdict[tuple[str, bool], set[Place]] = defaultdict(set)

    def call(self, call: ReadCall) -> str:
        """Return a call with slots, otherwise in normal form."""
        arguments = [
            ("" if name.isdigit() else f"{name}=") + self._value((call.tool, name), value)
            for name, value in call.arguments
        ]
        return f"{call.tool}({', '.join(arguments)})"

    def _value(self, place: Place, value: object) -> str:
        match value:
            case list():
                entries = [self._value(place, each) for each in cast("list[object]", value)]
                return f"[{', '.join(entries)}]"
            case str() | int() | float() if not isinstance(value, bool):
                number = self._slot(place, value)
                if number is None:
                    return self._parts(place, value) if isinstance(value, str) else repr(value)
                return f"\x00{number}\x00"
            case _:
                return repr(value)

    def _parts(self, place: Place, text: str) -> str:
        """Return a text with slots for its words that the world and the instruction have, too."""

        def put(word: re.Match[str]) -> str:
            number = self._slot(place, word[0]) if word[0] in self._words else None
            return word[0] if number is None else f"\x01{number}\x01"

        return _WORD.sub(put, repr(text)) if len(text) < 1000 else repr(text)

    def _slot(self, place: Place, value: Scalar) -> int | None:
        """Return the slot of a value; None if the instruction does not say it."""
        said = next(
            (n for n, form in enumerate(forms(value)) if _whole(form).search(self._instruction)),
            None,
        )
        if said is None or not str(value).strip():
            return None
        is_number = not isinstance(value, str)
        key = (str(value), is_number)
        slot = Slot(place, said, is_number)
        self._places[key].add(place)
        return self._slots.setdefault(key, (len(self._slots), slot, value))[0]

    def example(self, calls: tuple[str, ...]) -> Example | None:
        """Return the turn as an example; None if it is not clear which slot a word is."""
        slots = [(slot, value) for _, slot, value in self._slots.values()]
        instruction = self._instruction
        numbered = sorted(enumerate(slots), key=lambda each: -len(str(each[1][1])))
        for number, (slot, value) in numbered:
            form = _whole(forms(value)[slot.form])
            if len(form.findall(instruction)) > 1 and self._is_shared(value):
                return None
            instruction = form.sub(f"\x00{number}\x00", instruction)
        if {int(mark[1]) for mark in _MARK.finditer(instruction)} != set(range(len(slots))):
            return None
        return Example(
            Template(
                instruction,
                calls,
                tuple(_placed(n, slot, calls) for n, (slot, _) in enumerate(slots)),
            ),
            tuple(value for _, value in slots),
        )

    def _is_shared(self, value: Scalar) -> bool:
        """Return whether several parameters take the value."""
        taken = [places for (text, _), places in self._places.items() if text == str(value)]
        return sum(map(len, taken)) > 1


def _placed(number: int, slot: Slot, calls: Iterable[str]) -> Slot:
    """Return a slot, with a place of its own if it is a part of a text."""
    of_part = next((call for call in calls if f"\x01{number}\x01" in call), None)
    return slot if of_part is None else slot._replace(place=(of_part, str(number)))


def _whole(text: str) -> re.Pattern[str]:
    """Return what finds a value that is no part of a longer word, number or slot."""
    return re.compile(rf"(?<![\w.\x00]){re.escape(text)}(?![\w\x00]|\.\d)")


def _pattern(text: str, slots: Sequence[Slot]) -> str:
    """Return a regular expression in which each slot is a group."""
    seen: set[int] = set()
    parts: list[str] = []
    end = 0
    for mark in _MARK.finditer(text):
        number = int(mark[1] or mark[2])
        group = _NUMBER if slots[number].is_number else ".+?"
        parts += (
            re.escape(text[end : mark.start()]),
            (f"(?P=s{number})" if number in seen else f"(?P<s{number}>{group})"),
        )
        seen.add(number)
        end = mark.end()
    return "".join((*parts, re.escape(text[end:])))


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)

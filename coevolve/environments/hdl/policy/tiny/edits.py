"""The tiny hardware policy's edits, which append statements to the end of a stimulus program.

    edit      = up to 4 statements, then how to run them
    statement = "set" input value | "rand" input | "rand" "all" | "prob" input eighths
              | "inc" input | "inc" "all" | "rol" input | "inv" input | "once" input
              | "seq" input: the constants of the specification, a cycle each
              | "off": all inputs at 0 | "on": those of one bit at 1
              | "wait" output value | "rst" | "step1" | "step2" | ...
    how       = "run8": after them, 8 cycles | "loop16": 16 times over, each with a cycle

A program only grows at its end, so its coverage never falls. `edits` returns the automaton of the
edits that fit a design's ports: a value fits its port, and each value has only one word.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.tiny.vocabulary import (
    ALL,
    EIGHTHS,
    IDS,
    INPUTS,
    KINDS,
    LAST,
    LOOPS,
    NAMED,
    OUTPUTS,
    RUNS,
    SLOTS,
    STEPS,
    VALUES,
    WORDS,
    Kind,
)
from coevolve.environments.hdl.simulate.messages import Port
from coevolve.environments.hdl.stimulus.program import (
    ApplyReset,
    Await,
    Chance,
    Change,
    Drive,
    Pins,
    Randomize,
    Repeat,
    Statement,
    Step,
    pins,
    word_bits,
)
from protocols.generation import END, Grammar

STATEMENTS = 4
WAIT_CYCLES = 64
RESET_CYCLES = 2
OF_ALL: tuple[Kind, ...] = ("rand", "inc")
"""Statements that can apply to several inputs."""

_Place = tuple[object, ...]
"""A state of the automaton: the number of complete statements, and the start of the next one."""


def design_pins(design: Design) -> Pins:
    """Return the ports of a design that an edit can name."""
    found = pins(design.ports, design.unit.clock, design.unit.reset)
    return Pins(
        inputs=found.inputs[:SLOTS],
        outputs=found.outputs[:SLOTS],
        clock=found.clock,
        reset=found.reset,
    )


def words_of(port: Port, constants: Sequence[int]) -> dict[str, int]:
    """Return the values that an edit can name for a port, without duplicates, by word."""
    bits = word_bits(port)
    ones = (1 << bits) - 1
    corners = (ones, 1 << (bits - 1), 0xAAAA_AAAA_AAAA_AAAA & ones)
    every = (*range(4), *corners, *constants)
    found: dict[str, int] = {}
    for name, value in zip((*VALUES, *NAMED), every, strict=False):
        if value <= ones and value not in found.values():
            found[name] = value
    return found


def fitting(port: Port, constants: Sequence[int]) -> tuple[int, ...]:
    """Return the constants that fit a port, in their order."""
    return tuple(each for each in constants if each >> word_bits(port) == 0)


def edits(design: Design) -> Grammar:
    """Return the automaton of the edits of a design's programs."""
    table = _Table(design_pins(design), design.file.literals)
    places: list[_Place] = [(0,)]
    numbers: dict[_Place, int] = {(0,): 0}
    states: list[tuple[tuple[int, int], ...]] = []
    while len(states) < len(places):
        edges: list[tuple[int, int]] = []
        for word, following in table.edges(places[len(states)]):
            if following is not None and following not in numbers:
                numbers[following] = len(places)
                places.append(following)
            edges.append((IDS[word], END if following is None else numbers[following]))
        states.append(tuple(edges))
    return Grammar(states=tuple(states))


@dataclass(frozen=True)
class _Table:
    """The edges of the automaton."""

    pins: Pins
    constants: tuple[int, ...]

    def edges(self, place: _Place) -> Iterator[tuple[str, _Place | None]]:
        """Yield the words that may follow, each with the next place; None for the end."""
        match place:
            case (int() as done,):
                yield from self._beginnings(done)
                yield from ((f"run{n}", None) for n in RUNS)
                yield from ((f"loop{n}", None) for n in LOOPS if done)
            case (int() as done, str() as kind):
                if kind in OF_ALL:
                    yield ALL, (done + 1,)
                for slot, port in self._ports(cast("Kind", kind)):
                    takes_value = kind in ("set", "wait", "prob")
                    yield slot, ((done, kind, port.name) if takes_value else (done + 1,))
            case (int() as done, "prob", _):
                yield from ((f"{n}/8", (done + 1,)) for n in EIGHTHS)
            case (int() as done, _, str() as name):
                ports = (*self.pins.inputs, *self.pins.outputs)
                port = next(each for each in ports if each.name == name)
                yield from ((word, (done + 1,)) for word in words_of(port, self.constants))
            case _:
                raise AssertionError(place)

    def _beginnings(self, done: int) -> Iterator[tuple[str, _Place]]:
        if done == STATEMENTS:
            return
        yield from ((kind, (done, kind)) for kind in KINDS if any(self._ports(kind)))
        if self.pins.reset is not None:
            yield "rst", (done + 1,)
        yield from ((word, (done + 1,)) for word in ("off", "on"))
        yield from ((f"step{n}", (done + 1,)) for n in STEPS)

    def _ports(self, kind: Kind) -> Iterator[tuple[str, Port]]:
        """Yield the ports for which a kind of statement makes sense."""
        if kind == "wait":
            yield from zip(OUTPUTS, self.pins.outputs, strict=False)
            return
        for slot, port in zip(INPUTS, self.pins.inputs, strict=False):
            if self._suits(kind, port):
                yield slot, port

    def _suits(self, kind: Kind, port: Port) -> bool:
        if kind in ("set", "rand", "inv"):
            return True
        if kind == "seq":
            return port.width > 1 and bool(fitting(port, self.constants))
        return (kind == "prob") == (port.width == 1)


def read_edit(design: Design, token_ids: Sequence[int]) -> tuple[Statement, ...]:
    """Return the statements of an edit. Raises ValueError for invalid tokens."""
    if not token_ids or token_ids[-1] not in LAST:
        raise ValueError("an edit needs a word at its end for how it runs")
    words = iter([WORDS[token] for token in token_ids[:-1]])
    found = design_pins(design)
    ports = dict(zip(INPUTS, found.inputs, strict=False))
    ports |= dict(zip(OUTPUTS, found.outputs, strict=False))
    reader = _Reader(ports, design.file.literals, words)
    statements = tuple(each for word in words for each in reader.statements(word))
    how = WORDS[token_ids[-1]]
    if how.startswith("run"):
        return (*statements, Step(cycles=int(how.removeprefix("run"))))
    body = (*statements, Step(cycles=1))
    return (Repeat(times=int(how.removeprefix("loop")), body=body),)


@dataclass(frozen=True)
class _Reader:
    """Reads statements from a sequence of words."""

    ports: Mapping[str, Port]
    constants: Sequence[int]
    words: Iterator[str]

    def statements(self, word: str) -> tuple[Statement, ...]:
        """Return the statements of the phrase that starts with ``word``."""
        match word:
            case "rst":
                return (ApplyReset(cycles=RESET_CYCLES),)
            case "off":
                return tuple(Drive(port=port.name, word=0) for port in self._inputs())
            case "on":
                strobes = (port for port in self._inputs() if port.width == 1)
                return tuple(Drive(port=port.name, word=1) for port in strobes)
            case _ if word.startswith("step"):
                return (Step(cycles=int(word.removeprefix("step"))),)
            case _ if word in KINDS:
                about = (self._about(word, port) for port in self._named(word, self._next()))
                return tuple(each for statements in about for each in statements)
            case _:
                raise ValueError(f"{word!r} begins no statement")

    def _about(self, kind: Kind, port: Port) -> tuple[Statement, ...]:
        match kind:
            case "set":
                return (Drive(port=port.name, word=self._value(port)),)
            case "wait":
                return (Await(port=port.name, word=self._value(port), cycles=WAIT_CYCLES),)
            case "rand":
                return (Randomize(port=port.name),)
            case "prob":
                eighths = int(self._next().removesuffix("/8"))
                return (Chance(port=port.name, eighths=eighths),)
            case "inc" | "rol" | "inv" | "once":
                return (Change(port=port.name, way=kind),)
            case "seq":
                values = fitting(port, self.constants)
                shown = ((Drive(port=port.name, word=value), Step(cycles=1)) for value in values)
                return tuple(statement for pair in shown for statement in pair)

    def _inputs(self) -> Iterator[Port]:
        return (port for name, port in self.ports.items() if name in INPUTS)

    def _named(self, kind: Kind, slot: str) -> Sequence[Port]:
        """Return the ports that a statement applies to."""
        if slot == ALL and kind in OF_ALL:
            return [port for port in self._inputs() if kind == "rand" or port.width > 1]
        return [self._port(slot)]

    def _next(self) -> str:
        word = next(self.words, None)
        if word is None:
            raise ValueError("a statement needs to be complete")
        return word

    def _port(self, word: str) -> Port:
        if word not in self.ports:
            raise ValueError(f"{word!r} is no port of this design")
        return self.ports[word]

    def _value(self, port: Port) -> int:
        word = self._next()
        values = words_of(port, self.constants)
        if word not in values:
            raise ValueError(f"{word!r} is no value of {port.name}")
        return values[word]

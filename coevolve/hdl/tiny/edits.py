"""What the tiny hardware policy writes: an edit, which goes on where a stimulus program ends.

    edit      = up to 4 statements, and how they run
    statement = "set" input value | "rand" input | "rand" "all" | "prob" input eighths
              | "inc" input | "rol" input | "inv" input | "once" input
              | "wait" output value | "rst" | "step1" | "step2" | ...
    how       = "run8": after them, 8 cycles | "loop16": 16 times over, each with a cycle

A program only grows at its end, so its coverage never falls. `edits` is the automaton of what can
be written for a design's ports: a value fits its port, and a word that says the same as another
one is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from coevolve.hdl.stimulus.program import (
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
from coevolve.hdl.tiny.vocabulary import (
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
from protocols.designs import Design
from protocols.generation import END, Grammar
from protocols.hardware import Port

STATEMENTS = 4
WAIT_CYCLES = 64
RESET_CYCLES = 2

_Place = tuple[object, ...]
"""A state of the automaton: how many statements are complete, and what of the next is written."""


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
    """Return the values that an edit can name for a port, each once."""
    bits = word_bits(port)
    ones = (1 << bits) - 1
    corners = (ones, 1 << (bits - 1), 0xAAAA_AAAA_AAAA_AAAA & ones)
    every = (*range(4), *corners, *constants)
    found: dict[str, int] = {}
    for name, value in zip((*VALUES, *NAMED), every, strict=False):
        if value <= ones and value not in found.values():
            found[name] = value
    return found


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
        """Yield the words that may follow, each with the place it leads to; None for the end."""
        match place:
            case (int() as done,):
                yield from self._beginnings(done)
                yield from ((f"run{n}", None) for n in RUNS)
                yield from ((f"loop{n}", None) for n in LOOPS if done)
            case (int() as done, str() as kind):
                if kind == "rand":
                    yield ALL, (done + 1,)
                for slot, port in self._ports(cast("Kind", kind)):
                    said = kind in ("set", "wait", "prob")
                    yield slot, ((done, kind, port.name) if said else (done + 1,))
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
        yield from ((f"step{n}", (done + 1,)) for n in STEPS)

    def _ports(self, kind: Kind) -> Iterator[tuple[str, Port]]:
        """Yield the ports that a kind of statement makes sense for."""
        if kind == "wait":
            yield from zip(OUTPUTS, self.pins.outputs, strict=False)
            return
        for slot, port in zip(INPUTS, self.pins.inputs, strict=False):
            if kind in ("set", "rand", "inv") or (kind == "prob") == (port.width == 1):
                yield slot, port


def read_edit(design: Design, token_ids: Sequence[int]) -> tuple[Statement, ...]:
    """Return the statements of an edit. Raises ValueError where it is none."""
    if not token_ids or token_ids[-1] not in LAST:
        raise ValueError("an edit needs to say at its end how it runs")
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
    """Takes statements off a row of words."""

    ports: Mapping[str, Port]
    constants: Sequence[int]
    words: Iterator[str]

    def statements(self, word: str) -> tuple[Statement, ...]:
        """Return what a statement that begins with ``word`` says."""
        if word == "rst":
            return (ApplyReset(cycles=RESET_CYCLES),)
        if word.startswith("step"):
            return (Step(cycles=int(word.removeprefix("step"))),)
        if word not in KINDS:
            raise ValueError(f"{word!r} begins no statement")
        slot = self._next()
        if (word, slot) == ("rand", ALL):
            inputs = (port for name, port in self.ports.items() if name in INPUTS)
            return tuple(Randomize(port=port.name) for port in inputs)
        return (self._about(word, self._port(slot)),)

    def _about(self, kind: Kind, port: Port) -> Statement:
        match kind:
            case "set":
                return Drive(port=port.name, word=self._value(port))
            case "wait":
                return Await(port=port.name, word=self._value(port), cycles=WAIT_CYCLES)
            case "rand":
                return Randomize(port=port.name)
            case "prob":
                return Chance(port=port.name, eighths=int(self._next().removesuffix("/8")))
            case "inc" | "rol" | "inv" | "once":
                return Change(port=port.name, way=kind)

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

"""Draws random stimulus programs within the limits.

Kinds of statements, values and counts have fixed odds. A value is small, a corner (all ones, the
highest bit, alternating bits), one of the caller's constants that fit the port, or uniform. A
program starts with a reset if the design has one.
"""

from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec
import numpy as np

from coevolve.environments.hdl.simulate.messages import Port, Reset
from coevolve.environments.hdl.stimulus.program import (
    MAX_STATEMENTS,
    WAYS,
    ApplyReset,
    Await,
    Chance,
    Change,
    Cost,
    Drive,
    Pins,
    Program,
    Randomize,
    Repeat,
    Statement,
    Step,
    cost,
    pins,
    word_bits,
)

T = TypeVar("T")

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
"""Numbers of cycles, all equally likely."""

TIMES = (2, 3, 4, 6, 8, 16)
BODY = 4
"""Maximum statements in the body of a repetition."""

RESET_CYCLES = 2

Kind = Literal["rst", "step", "set", "rand", "prob", "change", "wait", "rep"]
ODDS: dict[Kind, float] = {
    "rst": 0.03,
    "step": 0.25,
    "set": 0.27,
    "rand": 0.12,
    "prob": 0.11,
    "change": 0.08,
    "wait": 0.06,
    "rep": 0.08,
}


def draw(
    rng: np.random.Generator,
    ports: Sequence[Port],
    clock: str,
    reset: Reset | None,
    literals: Sequence[int],
    statements: int,
) -> Program:
    """Return a program of ``statements`` statements, or fewer at a limit.

    A repetition counts as one statement.
    """
    source = _Source(rng=rng, pins=pins(ports, clock, reset), literals=tuple(literals))
    first = (ApplyReset(cycles=RESET_CYCLES),) if reset else ()
    count = max(1, min(statements, MAX_STATEMENTS)) - len(first)
    return Program(statements=(*first, *source.statements(count, cost(first))))


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """Draws statements for one design."""

    rng: np.random.Generator
    pins: Pins
    literals: tuple[int, ...]

    def statements(self, count: int, spent: Cost) -> list[Statement]:
        """Return random statements; near a limit fewer, and none that takes cycles."""
        drawn: list[Statement] = []
        for _ in range(count):
            statement = self._statement(self._kinds(nested=False))
            if (spent + cost([statement])).excess():
                statement = self._statement(("set",) if self.pins.inputs else ("step",))
            if not (after := spent + cost([statement])).excess():
                spent = after
                drawn.append(statement)
        return drawn

    def _kinds(self, *, nested: bool) -> tuple[Kind, ...]:
        lacking: set[Kind] = set()
        if nested:
            lacking |= {"rep", "rst"}
        if self.pins.reset is None:
            lacking |= {"rst"}
        if not self.pins.inputs:
            lacking |= {"set", "rand", "prob", "change"}
        if not self.pins.outputs:
            lacking |= {"wait"}
        return tuple(kind for kind in ODDS if kind not in lacking)

    def _statement(self, kinds: Sequence[Kind]) -> Statement:
        odds = np.array([ODDS[kind] for kind in kinds])
        match kinds[int(self.rng.choice(len(kinds), p=odds / odds.sum()))]:
            case "rst":
                return ApplyReset(cycles=RESET_CYCLES)
            case "step":
                return Step(cycles=self._one(COUNTS))
            case "set":
                port = self._one(self.pins.inputs)
                return Drive(port=port.name, word=self._word(port))
            case "rand":
                return Randomize(port=self._one(self.pins.inputs).name)
            case "prob":
                narrow = tuple(each for each in self.pins.inputs if each.width == 1)
                port = self._one(narrow or self.pins.inputs)
                return Chance(port=port.name, eighths=self._one(range(1, 8)))
            case "change":
                return Change(port=self._one(self.pins.inputs).name, way=self._one(WAYS))
            case "wait":
                port = self._one(self.pins.outputs)
                return Await(port=port.name, word=self._word(port), cycles=self._one(COUNTS))
            case "rep":
                return self._repeat()

    def _repeat(self) -> Repeat:
        kinds = self._kinds(nested=True)
        body = [self._statement(kinds) for _ in range(self._one(range(BODY)))]
        body.append(Step(cycles=self._one(COUNTS[:6])))
        return Repeat(times=self._one(TIMES), body=tuple(body))

    def _word(self, port: Port) -> int:
        bits = word_bits(port)
        fitting = [literal for literal in self.literals if literal < 1 << bits]
        match int(self.rng.integers(4 if fitting else 3)):
            case 0:
                return int(self.rng.integers(0, min(1 << bits, 4)))
            case 1:
                highest, ones = 1 << (bits - 1), (1 << bits) - 1
                return self._one((ones, highest, highest - 1, 0xAAAA_AAAA_AAAA_AAAA & ones))
            case 2:
                return int(self.rng.integers(0, (1 << bits) - 1, dtype=np.uint64, endpoint=True))
            case _:
                return self._one(fitting)

    def _one(self, among: Sequence[T]) -> T:
        return among[int(self.rng.integers(len(among)))]

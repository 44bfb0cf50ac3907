"""A stimulus program as data: the meaning of its statements, and its limits.

A program drives the inputs of a design cycle by cycle. Every input but the clock and the reset has
a *word* of at most 64 bits and is *held*, *random* (a new word each cycle) or a *chance* (each
cycle 1 with a probability in eighths, else 0). At the start all inputs are held at 0, and the reset
is inactive.

- The word of a port of up to 64 bits is its value. A wider port repeats its word from the lowest
  bit up, cut off at the top; of an output wider than 64 bits the lowest 64 bits are read.
- In a cycle the clock falls together with the inputs' new values, and rises half a cycle later.
  Outputs are read half a cycle after that. Without a clock, a cycle is the time in which the
  inputs' values settle.
- After the last cycle the clock falls once more, and the inputs take their present words.
- Random words are those of xorshift64 (Marsaglia 2003, shifts 13, 7, 17), starting at `first_state`
  of the seed. A cycle draws one word for each input that is random or a chance, in the order of the
  header, before the clock falls. A random input takes the lowest bits of its word; a chance
  compares the lowest three bits with its eighths.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, assert_never

import msgspec

from coevolve.environments.hdl.simulate.messages import Port, Reset

MAX_CYCLES = 19_990
"""Maximum cycles of a program, with each wait at its maximum. A cycle is two time slots, so a
program ends by itself before the default limit of time slots."""

MAX_STATEMENTS = 512
"""Maximum statements of a program as written, including bodies."""

MAX_DEPTH = 6
"""Maximum depth of nested repetitions."""

MAX_EXECUTED = 200_000
"""Maximum executed statements, not counting cycles."""

WORD_BITS = 64

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_CYCLES)]

Way = Literal["inc", "rol", "inv", "once"]
WAYS: tuple[Way, ...] = ("inc", "rol", "inv", "once")


class ApplyReset(msgspec.Struct, frozen=True, kw_only=True, tag="rst"):
    """Let cycles pass with the reset active."""

    cycles: Count


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """Let cycles pass."""

    cycles: Count


class Drive(msgspec.Struct, frozen=True, kw_only=True, tag="set"):
    """Hold an input at a word."""

    port: str
    word: int


class Randomize(msgspec.Struct, frozen=True, kw_only=True, tag="rand"):
    """Give an input a random word each cycle."""

    port: str


class Chance(msgspec.Struct, frozen=True, kw_only=True, tag="prob"):
    """Give an input 1 with a chance of some eighths each cycle, else 0."""

    port: str
    eighths: Annotated[int, msgspec.Meta(ge=1, le=7)]


class Change(msgspec.Struct, frozen=True, kw_only=True, tag="change"):
    """Hold an input at its word plus one, rotated left by one bit, inverted, or newly drawn."""

    port: str
    way: Way


class Await(msgspec.Struct, frozen=True, kw_only=True, tag="wait"):
    """Let cycles pass until an output has a word, at most ``cycles``."""

    port: str
    word: int
    cycles: Count


class Repeat(msgspec.Struct, frozen=True, kw_only=True, tag="rep"):
    """Execute the body ``times`` times."""

    times: Count
    body: "tuple[Statement, ...]"


Statement = ApplyReset | Step | Drive | Randomize | Chance | Change | Await | Repeat


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Maximum cost of statements."""

    cycles: int = 0
    executed: int = 0
    written: int = 0
    depth: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the cost of both, one after the other."""
        return Cost(
            cycles=self.cycles + other.cycles,
            executed=self.executed + other.executed,
            written=self.written + other.written,
            depth=max(self.depth, other.depth),
        )

    def excess(self) -> str:
        """Return which limit is exceeded, and by what; empty if none is."""
        for found, limit, noun in (
            (self.cycles, MAX_CYCLES, "cycles"),
            (self.executed, MAX_EXECUTED, "executed statements"),
            (self.written, MAX_STATEMENTS, "statements"),
            (self.depth, MAX_DEPTH, "nested repetitions"),
        ):
            if found > limit:
                return f"a program has at most {limit} {noun}, this one has {found}"
        return ""


def cost(statements: Iterable[Statement]) -> Cost:
    """Return the total cost of the statements."""
    return sum(map(_cost_of, statements), Cost())


def _cost_of(statement: Statement) -> Cost:
    match statement:
        case ApplyReset(cycles=cycles) | Step(cycles=cycles) | Await(cycles=cycles):
            return Cost(cycles=cycles, executed=1, written=1)
        case Drive() | Randomize() | Chance() | Change():
            return Cost(executed=1, written=1)
        case Repeat(times=times, body=body):
            inner = cost(body)
            return Cost(
                cycles=times * inner.cycles,
                executed=1 + times * inner.executed,
                written=1 + inner.written,
                depth=1 + inner.depth,
            )
        case _:
            assert_never(statement)


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """Statements within the limits; a program without any does nothing."""

    statements: tuple[Statement, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for a program that exceeds a limit."""
        if excess := cost(self.statements).excess():
            raise ValueError(excess)


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """The ports of a design by their role in a program."""

    inputs: tuple[Port, ...]
    """The inputs that a program drives, in the order of the header."""

    outputs: tuple[Port, ...]
    clock: str
    reset: Reset | None


def pins(ports: Sequence[Port], clock: str, reset: Reset | None) -> Pins:
    """Return the ports by their role in a program, without any ``inout``."""
    taken = {clock, reset.port if reset else ""}
    return Pins(
        inputs=tuple(each for each in ports if each.direction == "in" and each.name not in taken),
        outputs=tuple(each for each in ports if each.direction == "out"),
        clock=clock,
        reset=reset,
    )


def word_bits(port: Port) -> int:
    """Return the number of bits of the port's word."""
    return min(port.width, WORD_BITS)


def first_state(seed: int) -> int:
    """Return the first state of the random words: an odd multiple of 2^64 / phi, so never 0."""
    return (2 * seed + 1) * 0x9E3779B97F4A7C15 % (1 << WORD_BITS)

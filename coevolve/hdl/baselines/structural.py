"""Structural stimulus: what an engineer tries who has read the port list and nothing else.

Deterministic and without a model. Each phase is a short stretch of stimulus: idling, all inputs at
their extremes, walking ones, counting, switching each control, every pair of values of two narrow
inputs, and the constants of the specification on every wide input, alone, beside addresses, and one
after another. A program is as many phases as fit, in order; the next program begins with the next
phase, so that what does not fit into the first comes in a later one.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from coevolve.hdl.baselines.target import Target
from coevolve.hdl.baselines.uniform import resetting
from coevolve.hdl.stimulus.program import (
    Change,
    Cost,
    Drive,
    Program,
    Repeat,
    Statement,
    Step,
    cost,
    word_bits,
)
from protocols.hardware import Port

NARROW_BITS = 3
"""Inputs up to this width are controls: all their values are tried."""

SMALL_VALUES = 16
"""Of a wide input, beside constants on another: it may be an address."""

IDLE_CYCLES = 300

Phase = tuple[Statement, ...]


def structural_programs(target: Target) -> Iterator[Program]:
    """Yield one program for each phase that can be the first."""
    phases = [phase for phase in _phases(target) if not cost(phase).excess()]
    for first in range(len(phases)):
        yield _packed(target, [*phases[first:], *phases[:first]])


def _packed(target: Target, phases: Sequence[Phase]) -> Program:
    """Return the phases that fit; each begins with the inputs at 0."""
    statements = resetting(target)
    spent = cost(statements)
    for phase in phases:
        quiet = (*_all(target.pins.inputs, 0), *phase)
        more: Cost = spent + cost(quiet)
        if not more.excess():
            statements, spent = (*statements, *quiet), more
    return Program(statements=statements)


def _phases(target: Target) -> Iterator[Phase]:
    inputs = target.pins.inputs
    narrow = [port for port in inputs if word_bits(port) <= NARROW_BITS]
    wide = [port for port in inputs if word_bits(port) > NARROW_BITS]
    yield _extremes(inputs)
    yield from (_held(port) for port in narrow)
    yield from (_constants(target.literals, wide, control) for control in narrow)
    yield from _sequences(target.literals, wide, narrow)
    yield from (_pair(one, other, wide) for one, other in combinations(narrow, 2))
    yield from (_walking(port, narrow) for port in wide)
    yield _counting(wide, narrow)
    yield from (_crossed(target.literals, one, other, narrow) for one, other in _couples(wide))
    yield (Step(cycles=IDLE_CYCLES),)
    yield (*_all(narrow, None), Step(cycles=IDLE_CYCLES))
    yield (*_all(narrow, None), *resetting(target))


def _extremes(inputs: Sequence[Port]) -> Phase:
    """All inputs at once: ones, zeros, alternating bits and their opposite."""
    inverted = tuple(Change(port=port.name, way="inv") for port in inputs)
    ones = (*_all(inputs, None), Step(cycles=4), *_all(inputs, 0), Step(cycles=4))
    alternating = tuple(Drive(port=port.name, word=_alternating(port)) for port in inputs)
    return (*ones, *alternating, Step(cycles=4), *inverted, Step(cycles=4))


def _held(control: Port) -> Phase:
    """One control, switched and then held for long, all others at rest."""
    flip = (Change(port=control.name, way="inv"), Step(cycles=1))
    return (
        Repeat(times=8, body=flip),
        *_all([control], None),
        Step(cycles=40),
    )


def _pair(one: Port, other: Port, wide: Sequence[Port]) -> Phase:
    """Every pair of values of two controls, with data that changes."""
    inner = (*_more(wide), Step(cycles=2), *_more([other]))
    outer = (Repeat(times=1 << other.width, body=inner), *_more([one]))
    return (Repeat(times=1 << one.width, body=outer),)


def _walking(port: Port, narrow: Sequence[Port]) -> Phase:
    """A single one through all bits of an input, and a single zero, controls off and on."""
    bits = word_bits(port)
    walk = (Repeat(times=bits, body=(Change(port=port.name, way="rol"), Step(cycles=1))),)
    one = (Drive(port=port.name, word=1), *walk)
    zero = (Drive(port=port.name, word=_ones(port) - 1), *walk)
    return (*one, *zero, *_all(narrow, None), *one, *zero)


def _counting(wide: Sequence[Port], narrow: Sequence[Port]) -> Phase:
    """All wide inputs count, while one control after the other is on."""
    count = Repeat(times=64, body=(*_more(wide), Step(cycles=1)))
    return tuple(
        statement
        for control in narrow
        for statement in (*_all([control], None), count, *_all([control], 0))
    )


def _constants(literals: Sequence[int], wide: Sequence[Port], control: Port) -> Phase:
    """Each constant on all wide inputs that it fits, with a pulse of one control."""
    return tuple(
        statement
        for literal in literals
        for statement in (
            *(Drive(port=port.name, word=literal) for port in wide if literal <= _ones(port)),
            *_pulse(control),
        )
    )


def _sequences(
    literals: Sequence[int], wide: Sequence[Port], narrow: Sequence[Port]
) -> Iterator[Phase]:
    """The constants in their order on one wide input, cycle by cycle, one control held on."""
    for port, control in product(wide, narrow):
        shown = [literal for literal in literals if literal <= _ones(port)]
        each = ((Drive(port=port.name, word=literal), Step(cycles=1)) for literal in shown)
        yield (*_all([control], None), *(statement for pair in each for statement in pair))


def _crossed(literals: Sequence[int], one: Port, other: Port, narrow: Sequence[Port]) -> Phase:
    """Every small value of one wide input beside every constant on another, all controls on."""
    shown = [literal for literal in literals if literal <= _ones(other)]
    each = ((Drive(port=other.name, word=literal), Step(cycles=1)) for literal in shown)
    body = (*(statement for pair in each for statement in pair), *_more([one]))
    return (*_all(narrow, None), Repeat(times=SMALL_VALUES, body=body))


def _couples(wide: Sequence[Port]) -> Iterator[tuple[Port, Port]]:
    return ((one, other) for one, other in product(wide, wide) if one is not other)


def _pulse(control: Port) -> Phase:
    return (*_all([control], None), Step(cycles=1), *_all([control], 0), Step(cycles=1))


def _all(ports: Sequence[Port], word: int | None) -> Phase:
    """Set inputs to a word, or with None to all ones."""
    return tuple(
        Drive(port=port.name, word=_ones(port) if word is None else word) for port in ports
    )


def _more(ports: Sequence[Port]) -> Phase:
    """Let inputs count on by one."""
    return tuple(Change(port=port.name, way="inc") for port in ports)


def _ones(port: Port) -> int:
    return (1 << word_bits(port)) - 1


def _alternating(port: Port) -> int:
    """Return the word whose bits alternate, the highest of them set."""
    return sum(1 << bit for bit in range(word_bits(port) - 1, -1, -2))

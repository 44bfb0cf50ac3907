"""Structural stimulus: what an engineer tries who knows only the port list.

It is deterministic and needs no model. Each phase is a short piece of stimulus: all inputs at their
extremes, each strobe switched and held, the constants of the specification on each input beside
counting addresses, strobe by strobe, every pair of values of two small inputs, walking ones,
counting, and idling. A program has as many phases as fit, in order. The next program starts with
the next phase, so phases that do not fit into one program are in a later one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product

from coevolve.environments.hdl.evaluation.baselines.target import Target
from coevolve.environments.hdl.evaluation.baselines.uniform import resetting
from coevolve.environments.hdl.simulate.messages import Port
from coevolve.environments.hdl.stimulus.program import (
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

SMALL_BITS = 4
"""Maximum width of control inputs, of which all values are tried."""

SMALL_VALUES = 16
"""Number of values of a wide input, which may be an address, beside constants on another."""

IDLE_CYCLES = 300

Phase = tuple[Statement, ...]


def structural_programs(target: Target) -> Iterator[Program]:
    """Yield one program for each phase that can be the first."""
    phases = [phase for phase in _phases(target) if not cost(phase).excess()]
    for first in range(len(phases)):
        yield _pack(target, [*phases[first:], *phases[:first]])


def _pack(target: Target, phases: Sequence[Phase]) -> Program:
    """Return a program of the phases that fit; each starts with all inputs at 0."""
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
    strobes = [port for port in inputs if word_bits(port) == 1]
    small = [port for port in inputs if word_bits(port) <= SMALL_BITS]
    broad = [port for port in inputs if word_bits(port) > 1]
    wide = [port for port in inputs if word_bits(port) > SMALL_BITS]
    yield _extremes(inputs)
    yield from (_switch_and_hold(port) for port in strobes)
    for on in (strobes, *([strobe] for strobe in strobes)):
        yield from (_constants(target.literals, port, broad, on) for port in broad)
    yield from (_corners(port, wide, strobes) for port in small if word_bits(port) > 1)
    yield from (
        (*_all(others, word), *_pair(one, other, wide))
        for one, other in combinations(small, 2)
        for word, others in ((0, strobes), (1, strobes))
    )
    yield from (_walk_bits(port, strobes) for port in wide)
    yield _count_up(broad, strobes)
    yield (Step(cycles=IDLE_CYCLES),)
    yield (*_all(strobes, 1), Step(cycles=IDLE_CYCLES))
    yield (*_all(strobes, 1), *resetting(target))


def _extremes(inputs: Sequence[Port]) -> Phase:
    """Return a phase with all inputs at once: ones, zeros, alternating bits and their inverse."""
    inverted = tuple(Change(port=port.name, way="inv") for port in inputs)
    ones = (*_all(inputs, None), Step(cycles=4), *_all(inputs, 0), Step(cycles=4))
    alternating = tuple(Drive(port=port.name, word=_alternating(port)) for port in inputs)
    return (*ones, *alternating, Step(cycles=4), *inverted, Step(cycles=4))


def _switch_and_hold(control: Port) -> Phase:
    """Return a phase that switches one strobe and then holds it long, with all others at 0."""
    flip = (Change(port=control.name, way="inv"), Step(cycles=1))
    return (
        Repeat(times=8, body=flip),
        *_all([control], None),
        Step(cycles=40),
    )


def _pair(one: Port, other: Port, wide: Sequence[Port]) -> Phase:
    """Return a phase with every pair of values of two small inputs, and changing data."""
    inner = (*_more(wide), Step(cycles=2), *_more([other]))
    outer = (Repeat(times=1 << other.width, body=inner), *_more([one]))
    return (Repeat(times=1 << one.width, body=outer),)


def _walk_bits(port: Port, strobes: Sequence[Port]) -> Phase:
    """Return a phase with a walking one and a walking zero on an input, strobes off and on."""
    bits = word_bits(port)
    walk = (Repeat(times=bits, body=(Change(port=port.name, way="rol"), Step(cycles=1))),)
    one = (Drive(port=port.name, word=1), *walk)
    zero = (Drive(port=port.name, word=_ones(port) - 1), *walk)
    return (*one, *zero, *_all(strobes, 1), *one, *zero)


def _count_up(wide: Sequence[Port], strobes: Sequence[Port]) -> Phase:
    """Return a phase in which all wide inputs count while one strobe after the other is on."""
    count = Repeat(times=64, body=(*_more(wide), Step(cycles=1)))
    return tuple(
        statement
        for control in strobes
        for statement in (*_all([control], None), count, *_all([control], 0))
    )


def _constants(
    literals: Sequence[int], data: Port, broad: Sequence[Port], on: Sequence[Port]
) -> Phase:
    """Return a phase with the constants on one input, the others counting, and strobes on."""
    shown = [literal for literal in literals if literal <= _ones(data)]
    each = ((Drive(port=data.name, word=literal), Step(cycles=1)) for literal in shown)
    others = [port for port in broad if port is not data]
    body = (*(statement for pair in each for statement in pair), *_more(others), Step(cycles=1))
    return (*_all(on, 1), Repeat(times=SMALL_VALUES, body=body))


def _corners(control: Port, wide: Sequence[Port], strobes: Sequence[Port]) -> Phase:
    """Return a phase with every value of a small input and pair of corners on the wide inputs.

    The pair is one corner for the first wide input and one for the rest.
    """
    body = tuple(
        statement
        for first, rest in product(CORNERS, CORNERS)
        for statement in (
            *(Drive(port=port.name, word=first(port)) for port in wide[:1]),
            *(Drive(port=port.name, word=rest(port)) for port in wide[1:]),
            Step(cycles=1),
        )
    )
    each = Repeat(times=1 << control.width, body=(*body, *_more([control])))
    return (*_all(strobes, 1), each)


def _all(ports: Sequence[Port], word: int | None) -> Phase:
    """Return statements that set inputs to a word, or with None to all ones."""
    return tuple(
        Drive(port=port.name, word=_ones(port) if word is None else word) for port in ports
    )


def _more(ports: Sequence[Port]) -> Phase:
    """Return statements that add one to inputs."""
    return tuple(Change(port=port.name, way="inc") for port in ports)


def _ones(port: Port) -> int:
    return (1 << word_bits(port)) - 1


def _alternating(port: Port) -> int:
    """Return the word with alternating bits, the highest one set."""
    return sum(1 << bit for bit in range(word_bits(port) - 1, -1, -2))


def _highest(port: Port) -> int:
    return 1 << (word_bits(port) - 1)


CORNERS: tuple[Callable[[Port], int], ...] = (
    lambda _: 0,
    lambda _: 1,
    _ones,
    _highest,
    _alternating,
)
"""Words that are likely to expose errors in arithmetic."""

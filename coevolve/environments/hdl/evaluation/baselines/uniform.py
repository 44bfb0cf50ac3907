"""Random stimulus: inputs at random, with and without a grammar around them."""

from collections.abc import Iterator
from itertools import count

import numpy as np

from coevolve.environments.hdl.evaluation.baselines.target import Target
from coevolve.environments.hdl.stimulus.program import (
    MAX_CYCLES,
    ApplyReset,
    Program,
    Randomize,
    Statement,
    Step,
)
from coevolve.environments.hdl.stimulus.random_program import draw

RESET_CYCLES = 4

STATEMENTS = 24
"""Of a random program, as many as a tiny model writes."""


def every_input(target: Target, cycles: int) -> Program:
    """Return the program that resets and then gives every input a random word in each cycle.

    What it does depends on the seed that it is run with.
    """
    inputs = tuple(Randomize(port=port.name) for port in target.pins.inputs)
    return Program(statements=(*resetting(target), *inputs, Step(cycles=cycles)))


def longest(target: Target) -> Program:
    """Return `every_input` for as many cycles as a program may have."""
    return every_input(target, MAX_CYCLES - RESET_CYCLES)


def long_runs(target: Target) -> Iterator[Program]:
    """Yield long random runs without end, each with other words, all with the same seed.

    Inputs are random from the start, and each run is one cycle longer in reset than the one before.
    Runs of a design without a reset are all the same.
    """
    inputs = tuple(Randomize(port=port.name) for port in target.pins.inputs)
    for skipped in count(RESET_CYCLES):
        first = ApplyReset(cycles=skipped) if target.reset else Step(cycles=skipped)
        left = max(1, MAX_CYCLES - skipped)
        yield Program(statements=(*inputs, first, Step(cycles=left)))


def random_programs(target: Target, rng: np.random.Generator) -> Iterator[Program]:
    """Yield programs drawn from the grammar, without end."""
    while True:
        yield draw(
            rng, target.ports, target.clock, target.reset, target.literals, statements=STATEMENTS
        )


def resetting(target: Target) -> tuple[Statement, ...]:
    """Return what resets the design, nothing where it has no reset."""
    return (ApplyReset(cycles=RESET_CYCLES),) if target.reset else ()

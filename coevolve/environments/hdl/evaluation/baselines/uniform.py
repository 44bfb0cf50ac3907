"""Random stimulus: random inputs in every cycle, and random programs of the grammar."""

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
"""Statements of a random program: as many as a tiny model writes."""


def every_input(target: Target, cycles: int) -> Program:
    """Return the program that resets and then gives every input a random word in each cycle.

    The words depend on the seed of the run.
    """
    inputs = tuple(Randomize(port=port.name) for port in target.pins.inputs)
    return Program(statements=(*resetting(target), *inputs, Step(cycles=cycles)))


def longest(target: Target) -> Program:
    """Return `every_input` for the maximum cycles of a program."""
    return every_input(target, MAX_CYCLES - RESET_CYCLES)


def long_runs(target: Target) -> Iterator[Program]:
    """Yield an endless series of long random runs, with different words from the same seed.

    Inputs are random from the start, and the reset of each run is one cycle longer than that of the
    run before. For a design without a reset all runs are the same.
    """
    inputs = tuple(Randomize(port=port.name) for port in target.pins.inputs)
    for skipped in count(RESET_CYCLES):
        first = ApplyReset(cycles=skipped) if target.reset else Step(cycles=skipped)
        left = max(1, MAX_CYCLES - skipped)
        yield Program(statements=(*inputs, first, Step(cycles=left)))


def random_programs(target: Target, rng: np.random.Generator) -> Iterator[Program]:
    """Yield an endless series of random programs of the grammar."""
    while True:
        yield draw(
            rng, target.ports, target.clock, target.reset, target.literals, statements=STATEMENTS
        )


def resetting(target: Target) -> tuple[Statement, ...]:
    """Return the statements that reset the design; empty if it has no reset."""
    return (ApplyReset(cycles=RESET_CYCLES),) if target.reset else ()

"""Programs that no model wrote, under which outputs of a design and its mutants are compared."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np

from coevolve.environments.hdl.designs.rtl import ports
from coevolve.environments.hdl.evaluation.baselines.structural import structural_programs
from coevolve.environments.hdl.evaluation.baselines.target import Target
from coevolve.environments.hdl.evaluation.baselines.uniform import long_runs, random_programs
from coevolve.environments.hdl.simulate.messages import Port, Reset, Unit
from coevolve.environments.hdl.stimulus.program import Program

PROGRAMS = 24
"""Programs of each baseline under which the outputs of a mutant are compared."""

LONG_PROGRAMS = 2
MOST_LITERALS = 32


def baselines(target: Target, seed: int) -> dict[str, Iterator[Program]]:
    """Return the programs of each baseline."""
    return {
        "long": long_runs(target),
        "random": random_programs(target, np.random.default_rng(seed)),
        "structural": structural_programs(target),
    }


def probes(unit: Unit, found: Sequence[Port]) -> list[Program]:
    """Return the first programs of each baseline, with the constants of the RTL."""
    words = re.findall(r"'s?h([0-9a-fA-F_]+)|'s?d([0-9_]+)", "".join(f.text for f in unit.files))
    numbers = {int(hexadecimal or "0", 16) | int(decimal or "0") for hexadecimal, decimal in words}
    target = Target(
        ports=tuple(found),
        clock=unit.clock,
        reset=unit.reset,
        literals=tuple(sorted(numbers)[:MOST_LITERALS]),
    )
    return [
        program
        for name, programs in baselines(target, seed=1).items()
        for program in islice(programs, LONG_PROGRAMS if name == "long" else PROGRAMS)
    ]


def with_clock(unit: Unit) -> Unit:
    """Return the unit with the clock and the reset of its processes, if it names no clock."""
    if unit.clock:
        return unit
    edges = re.findall(r"(posedge|negedge)\s+(\w+)", "".join(file.text for file in unit.files))
    bits = {port.name for port in ports(unit) if port.direction == "in" and port.width == 1}
    names = list(dict.fromkeys(name for _, name in edges if name in bits))
    if not names:
        return unit
    clock = max(names, key=[name for _, name in edges].count)
    resets = [(edge, name) for edge, name in edges if name in bits and name != clock]
    reset = unit.reset
    if reset is None and resets:
        reset = Reset(port=resets[0][1], active="low" if resets[0][0] == "negedge" else "high")
    return msgspec.structs.replace(unit, clock=clock, reset=reset)

"""Inserts bugs into a design, and checks whether a testbench exposes them.

A testbench kills a mutant if the outputs of the mutant differ from those of the design at any time
of the run. The testbench needs no checks of its own: the test is of what it drives, not of what it
prints. Outputs are compared at the end of each time slot, so neither glitches within a slot nor the
simulator's order of evaluation count. `hdl.designs.output_trace` records the outputs; the testbench
cannot influence the record.

A mutant is also killed if an error or a limit ends its simulation differently from the design's:
either its outputs differed before that, or its own code did not end. A mutant that does not
compile is broken, neither killed nor alive.
"""

from collections.abc import Iterable
from typing import assert_never

import msgspec

from coevolve.environments.hdl.designs.design import Design, Mutant
from coevolve.environments.hdl.designs.output_trace import OutputTracer, Trace, Traced
from coevolve.environments.hdl.simulate.messages import (
    BadStimulus,
    CompileFailed,
    Covered,
    NotCovered,
    PatchFailed,
    Rejected,
    SimulationFailed,
    SimulationLimits,
    TimedOut,
    Unit,
)
from protocols.errors import ConfigError

LIMITS = SimulationLimits()


class Bugs(msgspec.Struct, frozen=True, kw_only=True):
    """Result of each of a design's mutants under one testbench, by name, in the order given."""

    killed: tuple[str, ...] = ()
    survived: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Mutants that do not compile."""


def apply(unit: Unit, mutant: Mutant) -> Unit:
    """Return the design with the bug in it, without frozen points.

    Raises ConfigError if the text to replace does not occur exactly once in its file.
    """
    found = sum(file.text.count(mutant.find) for file in unit.files if file.name == mutant.file)
    if found != 1:
        raise ConfigError(
            f"{unit.name}: mutant {mutant.name} needs a text that occurs exactly once in "
            f"{mutant.file}, found it {found} times: {mutant.find!r}; use more of its line"
        )
    files = tuple(
        msgspec.structs.replace(file, text=file.text.replace(mutant.find, mutant.replace))
        if file.name == mutant.file
        else file
        for file in unit.files
    )
    return msgspec.structs.replace(
        unit,
        name=f"{unit.name} with {mutant.name}",
        files=files,
        points_sha256="",
        unreachable=(),
    )


async def killed(
    tracer: OutputTracer,
    design: Design,
    testbench: str,
    mutants: Iterable[Mutant],
    limits: SimulationLimits = LIMITS,
) -> Bugs:
    """Return which of ``mutants`` a testbench of ``design`` kills.

    If the testbench does not run on the design itself, all mutants survive. Raises SimulatorError
    on an infrastructure failure.
    """
    golden = await tracer.trace(design.unit, testbench, design.file.seed, limits)
    fates: dict[str, list[str]] = {"killed": [], "survived": [], "broken": []}
    for mutant in mutants:
        fate = "survived"
        if isinstance(golden, Traced):
            fate = await _fate(
                golden, tracer, design, testbench, apply(design.unit, mutant), limits
            )
        fates[fate].append(mutant.name)
    return msgspec.convert(fates, Bugs)


async def _fate(
    golden: Traced,
    tracer: OutputTracer,
    design: Design,
    testbench: str,
    mutated: Unit,
    limits: SimulationLimits,
) -> str:
    try:
        found = await tracer.trace(mutated, testbench, design.file.seed, limits)
    except ConfigError:
        return "broken"
    return _verdict(golden, found)


def _verdict(golden: Traced, found: Trace) -> str:
    match found:
        case Traced():
            return "killed" if found.differs(golden) else "survived"
        case SimulationFailed() | TimedOut(stage="simulate"):
            return "killed"
        case (
            Covered()
            | Rejected()
            | PatchFailed()
            | BadStimulus()
            | CompileFailed()
            | NotCovered()
            | TimedOut()
        ):
            return "broken"
        case _:
            assert_never(found)

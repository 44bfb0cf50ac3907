"""Bugs put into a design, and whether a testbench makes them show.

A mutant is killed by a testbench where the outputs of the design differ, at any time of the run,
from those of the design without the bug. The testbench needs to check nothing: what it drives is
judged, not what it prints. Outputs are compared at the end of each time slot, so neither glitches
within one nor the order in which a simulator evaluates count. See `hdl.designs.output_trace` for
how they are seen without the testbench having a say in it.

A mutant that ends otherwise than the design, by an error of the simulation or by a limit, is killed
too: its outputs cannot have been the same up to there, or its own code ran away. One that does not
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
    """What became of a design's mutants under one testbench, by name, in the order given."""

    killed: tuple[str, ...] = ()
    survived: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Mutants that do not compile."""


def apply(design: Design, mutant: Mutant) -> Unit:
    """Return the design with the bug in it; it has no frozen points.

    Raises ConfigError where the text to replace does not stand exactly once in its file.
    """
    found = sum(
        file.text.count(mutant.find) for file in design.unit.files if file.name == mutant.file
    )
    if found != 1:
        raise ConfigError(
            f"{design.design_id}: mutant {mutant.name} needs a text that stands exactly once in "
            f"{mutant.file}, found it {found} times: {mutant.find!r}; give more of its line"
        )
    files = tuple(
        msgspec.structs.replace(file, text=file.text.replace(mutant.find, mutant.replace))
        if file.name == mutant.file
        else file
        for file in design.unit.files
    )
    return msgspec.structs.replace(
        design.unit,
        name=f"{design.design_id} with {mutant.name}",
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

    A testbench that does not run on the design itself kills nothing: all of them survive. Raises
    SimulatorError where the machine failed.
    """
    golden = await tracer.trace(design.unit, testbench, design.file.seed, limits)
    fates: dict[str, list[str]] = {"killed": [], "survived": [], "broken": []}
    for mutant in mutants:
        fate = "survived"
        if isinstance(golden, Traced):
            fate = await _fate(golden, tracer, design, testbench, apply(design, mutant), limits)
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
    return _judged(golden, found)


def _judged(golden: Traced, found: Trace) -> str:
    match found:
        case Traced():
            return "survived" if found == golden else "killed"
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

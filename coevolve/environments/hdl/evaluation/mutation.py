"""Judges a testbench by the mutants of its design that it notices.

A testbench *notices* a mutant if its verdict on it is failed: a check or an assertion fails, or the
run does not end. It *shows* a mutant without noticing it if only the outputs differ, as those of
noise would: nobody would know of the bug. The score is the noticed share, so a testbench without a
check has 0, whatever it drives.

A mutant that changes no outputs, neither under the testbench nor under the structural, random and
long random programs of the baselines, counts as *equivalent* and is left out. This is no proof. A
design whose outputs cannot be compared under programs (`hdl.stimulus.outputs.is_told`) has no
equivalent mutants. Mutants that do not compile are left out too.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from coevolve.environments.hdl.designs.design import Mutant
from coevolve.environments.hdl.designs.mutants import apply
from coevolve.environments.hdl.designs.output_trace import OutputTracer, Trace, Traced
from coevolve.environments.hdl.designs.rtl import ports
from coevolve.environments.hdl.evaluation.baselines.probes import probes, with_clock
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    Port,
    SimulationFailed,
    TimedOut,
    Unit,
)
from coevolve.environments.hdl.simulate.summary import message
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator
from coevolve.environments.hdl.stimulus.outputs import OutputHarness, is_told
from coevolve.environments.hdl.stimulus.program import Program
from protocols.errors import ConfigError, SimulatorError

Fate = Literal["noticed", "shown", "missed", "equivalent", "broken"]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A mutant and what became of it."""

    name: str
    bug: str
    fate: Fate
    reason: str = ""
    """What failed, for one that was noticed."""


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """What a testbench makes of the mutants of its design."""

    judged: tuple[Judged, ...]

    def count(self, *fates: Fate) -> int:
        """Return the number of mutants with one of these fates."""
        return sum(each.fate in fates for each in self.judged)

    @property
    def counted(self) -> int:
        """Mutants that compile and are not equivalent."""
        return self.count("noticed", "shown", "missed")

    @property
    def score(self) -> float:
        """The noticed share of the counted mutants, 0..1; 0 without any."""
        return self.count("noticed") / self.counted if self.counted else 0.0


async def mutation(
    simulator: VerilatorSimulator, request: Evaluate, testbench: str, mutants: Sequence[Mutant]
) -> Mutation:
    """Return what ``testbench``, which ran with ``request``, makes of mutants of its design.

    Raises ConfigError if its verdict on the design itself is failed, so that it notices nothing,
    and SimulatorError on an infrastructure failure.
    """
    judge = _Judge(
        simulator=simulator,
        request=request,
        testbench=testbench,
        tracer=OutputTracer(simulator.tools, request.gate),
        gate=asyncio.Semaphore(len(os.sched_getaffinity(0))),
    )
    golden = await judge.trace(request.unit)
    if not isinstance(golden, Traced) or golden.faults:
        why = golden.faults[0] if isinstance(golden, Traced) else message(golden)
        raise ConfigError(
            f"--mutants needs a testbench that passes on the design itself, found: {why}"
        )
    first = await asyncio.gather(*(judge.first(golden, each) for each in mutants))
    missed = [mutant for mutant, each in zip(mutants, first, strict=True) if each.fate == "missed"]
    equivalent = await judge.equivalent(missed) if missed else set[str]()
    return Mutation(
        judged=tuple(
            msgspec.structs.replace(each, fate="equivalent") if each.name in equivalent else each
            for each in first
        )
    )


@dataclass(frozen=True, kw_only=True)
class _Judge:
    simulator: VerilatorSimulator
    request: Evaluate
    testbench: str
    tracer: OutputTracer
    gate: asyncio.Semaphore

    async def trace(self, unit: Unit) -> Trace:
        request = self.request
        async with self.gate:
            return await self.tracer.trace(
                unit, self.testbench, request.seed, request.limits, request.testbench_top
            )

    async def first(self, golden: Traced, mutant: Mutant) -> Judged:
        """Return the fate of a mutant under the testbench alone."""
        try:
            found = await self.trace(apply(self.request.unit, mutant))
        except ConfigError:
            return Judged(name=mutant.name, bug=mutant.bug, fate="broken")
        fate, reason = _fate(golden, found)
        return Judged(name=mutant.name, bug=mutant.bug, fate=fate, reason=reason)

    async def equivalent(self, mutants: Sequence[Mutant]) -> set[str]:
        """Return the names of the mutants whose outputs no program tells from the design's."""
        unit = with_clock(self.request.unit)
        found = ports(unit)
        if not is_told(found):
            return set()
        programs = probes(unit, found)
        golden = await self._outputs(unit, found, programs)
        outputs = await asyncio.gather(
            *(self._outputs(apply(unit, each), found, programs) for each in mutants)
        )
        return {
            mutant.name
            for mutant, each in zip(mutants, outputs, strict=True)
            if golden is not None and each == golden
        }

    async def _outputs(
        self, unit: Unit, found: Sequence[Port], programs: Sequence[Program]
    ) -> list[bytes] | None:
        """Return the hash of the outputs under each program; None if a simulation failed."""
        async with self.gate:
            try:
                harness = await OutputHarness.open(
                    unit, found, self.simulator.toolchain, self.simulator.sandbox
                )
            except (ConfigError, SimulatorError):
                return None
            try:
                return [await harness.run(each, self.request.seed) for each in programs]
            except SimulatorError:
                return None
            finally:
                await harness.close()


def _fate(golden: Traced, found: Trace) -> tuple[Fate, str]:
    match found:
        case Traced(faults=(reason, *_)):
            return "noticed", reason
        case Traced():
            return ("shown" if found.differs(golden) else "missed"), ""
        case SimulationFailed() | TimedOut(stage="simulate"):
            return "noticed", message(found)
        case _:
            return "broken", ""

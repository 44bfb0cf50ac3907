"""Which of a design's mutants each of several testbenches kills.

A stimulus program is judged on mutants that are compiled once for all programs
(`hdl.stimulus.outputs`), a whole testbench on its own (`hdl.designs.mutants`), and so is
a program on what cannot be told otherwise: wide outputs, and mutants that die or hang.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from coevolve.environments.hdl.designs.design import Design, Mutant
from coevolve.environments.hdl.designs.mutants import Bugs, apply, killed
from coevolve.environments.hdl.designs.output_trace import OutputTracer
from coevolve.environments.hdl.policy.transition import Graded, coverage_of
from coevolve.environments.hdl.simulate.messages import SimulationLimits, Unit
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator
from coevolve.environments.hdl.stimulus.language import parse
from coevolve.environments.hdl.stimulus.outputs import OutputHarness, is_told
from coevolve.environments.hdl.stimulus.program import Program
from protocols.errors import ConfigError, SimulatorError


class BugJudge:
    """Judges testbenches by bugs, as many at a time as there are processors."""

    def __init__(self, verilator: VerilatorSimulator, limits: SimulationLimits) -> None:
        self._tools = (verilator.toolchain, verilator.sandbox)
        self._tracer = OutputTracer(verilator.tools)
        self._limits = limits
        self._gate = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def judge(self, design: Design, states: Sequence[Graded]) -> Mapping[str, Bugs]:
        """Return what became of ``design``'s mutants under each testbench that ran, by its text.

        Raises SimulatorError where the machine failed.
        """
        ran = {state.testbench: state for state in states if coverage_of(state) is not None}
        programs = {
            text: parse(state.program, design.ports, design.unit.clock, design.unit.reset)
            for text, state in sorted(ran.items())
            if state.program and is_told(design.ports)
        }
        whole = sorted(ran.keys() - programs.keys())
        found = await asyncio.gather(
            *(self._killed(design, text, design.mutants) for text in whole)
        )
        judged = dict(zip(whole, found, strict=True))
        if programs:
            judged.update(await self._by_programs(design, programs))
        return judged

    async def _killed(self, design: Design, text: str, mutants: Sequence[Mutant]) -> Bugs:
        async with self._gate:
            return await killed(self._tracer, design, text, mutants, self._limits)

    async def _by_programs(
        self, design: Design, programs: Mapping[str, Program]
    ) -> Mapping[str, Bugs]:
        golden = await self._told(design, design.unit, programs)
        fates = await asyncio.gather(
            *(self._fates(design, mutant, programs, golden) for mutant in design.mutants)
        )
        return {text: _joined([each[text] for each in fates]) for text in programs}

    async def _fates(
        self,
        design: Design,
        mutant: Mutant,
        programs: Mapping[str, Program],
        golden: Mapping[str, bytes | None],
    ) -> Mapping[str, Bugs]:
        """Return what each program, by its text, does to one mutant."""
        name = (mutant.name,)
        try:
            told = await self._told(design, apply(design, mutant), programs)
        except ConfigError:
            return dict.fromkeys(programs, Bugs(broken=name))
        fates: dict[str, Bugs] = {}
        for text in programs:
            if told[text] is None or golden[text] is None:
                fates[text] = await self._killed(design, text, [mutant])
            elif told[text] == golden[text]:
                fates[text] = Bugs(survived=name)
            else:
                fates[text] = Bugs(killed=name)
        return fates

    async def _told(
        self, design: Design, unit: Unit, programs: Mapping[str, Program]
    ) -> Mapping[str, bytes | None]:
        """Return what the outputs of ``unit`` say, by text; None where it came to no end."""
        told = dict[str, bytes | None].fromkeys(programs)
        async with self._gate:
            try:
                harness = await OutputHarness.open(unit, design.ports, *self._tools)
            except SimulatorError:
                return told
            try:
                for text, program in programs.items():
                    with suppress(SimulatorError):
                        told[text] = await harness.run(program, design.file.seed)
            finally:
                await harness.close()
        return told


def share(bugs: Bugs) -> float:
    """Return the share of the mutants that compile and were killed."""
    judged = len(bugs.killed) + len(bugs.survived)
    return len(bugs.killed) / judged if judged else 0.0


def _joined(fates: Sequence[Bugs]) -> Bugs:
    return Bugs(
        killed=tuple(name for each in fates for name in each.killed),
        survived=tuple(name for each in fates for name in each.survived),
        broken=tuple(name for each in fates for name in each.broken),
    )

"""Finds which of a design's mutants each of several testbenches kills.

For stimulus programs each mutant is compiled once and runs all programs (`hdl.stimulus.outputs`).
Whole testbenches run on the mutants one by one (`hdl.designs.mutants`). So do programs where the
outputs are too wide for the first method, or where a mutant dies or hangs.
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
    """Runs testbenches on mutants, as many at a time as there are processors."""

    def __init__(self, verilator: VerilatorSimulator, limits: SimulationLimits) -> None:
        self._tools = (verilator.toolchain, verilator.sandbox)
        self._tracer = OutputTracer(verilator.tools)
        self._limits = limits
        self._gate = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def judge(self, design: Design, states: Sequence[Graded]) -> Mapping[str, Bugs]:
        """Return killed and surviving mutants for each testbench that ran, by its text.

        Raises SimulatorError on an infrastructure failure.
        """
        ran = {state.testbench: state for state in states if coverage_of(state) is not None}
        programs = {
            text: parse(state.program, design.ports, design.unit.clock, design.unit.reset)
            for text, state in sorted(ran.items())
            if state.program and is_told(design.ports)
        }
        whole = sorted(ran.keys() - programs.keys())
        found = await asyncio.gather(
            *(self._kill_mutants(design, text, design.mutants) for text in whole)
        )
        judged = dict(zip(whole, found, strict=True))
        if programs:
            judged.update(await self._by_programs(design, programs))
        return judged

    async def _kill_mutants(self, design: Design, text: str, mutants: Sequence[Mutant]) -> Bugs:
        async with self._gate:
            return await killed(self._tracer, design, text, mutants, self._limits)

    async def _by_programs(
        self, design: Design, programs: Mapping[str, Program]
    ) -> Mapping[str, Bugs]:
        golden = await self._outputs(design, design.unit, programs)
        results = await asyncio.gather(
            *(self._results(design, mutant, programs, golden) for mutant in design.mutants)
        )
        return {text: _merge([each[text] for each in results]) for text in programs}

    async def _results(
        self,
        design: Design,
        mutant: Mutant,
        programs: Mapping[str, Program],
        golden: Mapping[str, bytes | None],
    ) -> Mapping[str, Bugs]:
        """Return the result of each program, by its text, on one mutant."""
        name = (mutant.name,)
        try:
            outputs = await self._outputs(design, apply(design.unit, mutant), programs)
        except ConfigError:
            return dict.fromkeys(programs, Bugs(broken=name))
        results: dict[str, Bugs] = {}
        for text in programs:
            if outputs[text] is None or golden[text] is None:
                results[text] = await self._kill_mutants(design, text, [mutant])
            elif outputs[text] == golden[text]:
                results[text] = Bugs(survived=name)
            else:
                results[text] = Bugs(killed=name)
        return results

    async def _outputs(
        self, design: Design, unit: Unit, programs: Mapping[str, Program]
    ) -> Mapping[str, bytes | None]:
        """Return the hashed outputs of ``unit``, by text; None if the simulation failed."""
        outputs = dict[str, bytes | None].fromkeys(programs)
        async with self._gate:
            try:
                harness = await OutputHarness.open(unit, design.ports, *self._tools)
            except SimulatorError:
                return outputs
            try:
                for text, program in programs.items():
                    with suppress(SimulatorError):
                        outputs[text] = await harness.run(program, design.file.seed)
            finally:
                await harness.close()
        return outputs


def share(bugs: Bugs) -> float:
    """Return the killed share of the mutants that compile."""
    judged = len(bugs.killed) + len(bugs.survived)
    return len(bugs.killed) / judged if judged else 0.0


def _merge(results: Sequence[Bugs]) -> Bugs:
    return Bugs(
        killed=tuple(name for each in results for name in each.killed),
        survived=tuple(name for each in results for name in each.survived),
        broken=tuple(name for each in results for name in each.broken),
    )

"""Records a design's outputs while a testbench runs, as a hash by which designs are compared.

The testbench cannot influence the record. The C++ loop around the model (``cpp/outputs.cpp``) reads
the design's outputs. At the end of each time slot in which they changed, it folds time and outputs
into one number, and at the end writes the number to a file that no system task can reach. Nothing
is added to the RTL or the testbench, and printed text is not read. The record covers all instances
of the design, wherever they are, and combinational designs as well as clocked ones. Coverage is not
counted.
"""

import asyncio
from typing import Literal

import msgspec

from coevolve.environments.hdl.designs.rtl import ports
from coevolve.environments.hdl.gate.levels import admitted
from coevolve.environments.hdl.simulate.messages import GateLevel, Outcome, SimulationLimits, Unit
from coevolve.environments.hdl.simulate.runtime import SOURCES
from coevolve.environments.hdl.simulate.simulation import (
    Simulation,
    Stopped,
    Tools,
    simulation,
)
from coevolve.environments.hdl.simulate.verdict import faults
from protocols.errors import SimulatorError

NO_COVERAGE = 'coverage_off -file "*"\n'


class Traced(msgspec.Struct, frozen=True, kw_only=True, tag="traced"):
    """The record of a testbench that ran."""

    folded: str
    """Hash of the outputs and the times at which they changed."""

    changes: int
    ended: Literal["finish", "quiet", "slot_limit"]
    slots: int
    faults: tuple[str, ...]
    """Why the verdict is failed; see `hdl.simulate.verdict`."""

    def differs(self, other: "Traced") -> bool:
        """Return whether outputs differed at any time, or the runs ended differently."""
        mine, theirs = (msgspec.structs.replace(each, faults=(), slots=0) for each in (self, other))
        return mine != theirs


Trace = Traced | Outcome
"""The outcome is never `coevolve.environments.hdl.simulate.messages.Covered`."""


class OutputTracer:
    """Simulates testbenches and records the outputs of their designs."""

    def __init__(self, tools: Tools, gate: GateLevel = "policy") -> None:
        self._tools = tools
        self._gate: GateLevel = gate

    async def trace(
        self, unit: Unit, testbench: str, seed: int, limits: SimulationLimits, top: str = ""
    ) -> Trace:
        """Return the record of the outputs, or the outcome of a testbench that did not run.

        ``top`` is the module to simulate; empty for the only one that no other instantiates. Raises
        SimulatorError on an infrastructure failure, and ConfigError where the unit itself does not
        compile.
        """
        return await asyncio.to_thread(self._trace, unit, testbench, seed, limits, top)

    def _trace(
        self, unit: Unit, testbench: str, seed: int, limits: SimulationLimits, told: str
    ) -> Trace:
        top = admitted(testbench, unit, told=told, level=self._gate)
        if not isinstance(top, str):
            return top
        with simulation(self._tools, unit, limits) as under_way:
            try:
                under_way.translate(unit.files, testbench, top, settings=traced_outputs(unit))
                model = under_way.model()
                under_way.compile(before_main=(SOURCES / "outputs.cpp").read_text())
                return traced(under_way, model, seed)
            except Stopped as stopped:
                return stopped.outcome


def traced(under_way: Simulation, model: str, seed: int, mutant: int = 0) -> Traced:
    """Run a simulation compiled with ``cpp/outputs.cpp``; return its record.

    ``model`` is the C++ of the translation, ``mutant`` is for a switched design. Raises Stopped and
    SimulatorError.
    """
    ran = under_way.run(seed, mutant)
    words = under_way.read("outputs.txt").split()
    if len(words) != 2:
        raise SimulatorError(
            f"the outputs of {under_way.unit.name} were not written: found {words}"
        )
    return Traced(
        folded=words[0],
        changes=int(words[1]),
        ended=ran.ended,
        slots=ran.slots,
        faults=faults(ran, model, under_way.limits),
    )


def traced_outputs(unit: Unit) -> str:
    """Return Verilator settings that make the outputs visible and turn coverage off."""
    visible = "".join(
        f'public_flat_rd -module "{unit.top}" -var "{port.name}"\n'
        for port in ports(unit)
        if port.direction != "in"
    )
    return NO_COVERAGE + visible

"""What a design's outputs say while a testbench runs, as something that designs are compared by.

The testbench has no part in it. The design's outputs are made visible to the C++ loop around the
model (``cpp/outputs.cpp``), which folds time and outputs into one number at the end of each time
slot in which they changed, and writes it to a file that no system task reaches. Nothing is put into
the RTL or the testbench, and nothing is read from what is printed. All instances of the design are
folded, wherever they stand, and combinational designs like clocked ones. Nothing is counted.
"""

import asyncio
from typing import Literal

import msgspec

from coevolve.environments.hdl.designs.rtl import ports
from coevolve.environments.hdl.gate.elaboration import find_top
from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.simulate.messages import Outcome, Rejected, SimulationLimits, Unit
from coevolve.environments.hdl.simulate.runtime import SOURCES
from coevolve.environments.hdl.simulate.simulation import Stopped, Tools, simulation
from protocols.errors import SimulatorError

NO_COVERAGE = 'coverage_off -file "*"\n'


class Traced(msgspec.Struct, frozen=True, kw_only=True, tag="traced"):
    """It ran. Equal where the outputs were equal at all times, and it ended alike."""

    folded: str
    """Of the outputs and the times at which they changed."""

    changes: int
    ended: Literal["finish", "quiet", "slot_limit"]


Trace = Traced | Outcome
"""Never `coevolve.environments.hdl.simulate.messages.Covered`."""


class OutputTracer:
    """Simulates testbenches for the outputs of their designs."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def trace(self, unit: Unit, testbench: str, seed: int, limits: SimulationLimits) -> Trace:
        """Return what the outputs said, or what else became of the testbench.

        Raises SimulatorError where the machine failed, and ConfigError where the unit itself does
        not compile.
        """
        return await asyncio.to_thread(self._trace, unit, testbench, seed, limits)

    def _trace(self, unit: Unit, testbench: str, seed: int, limits: SimulationLimits) -> Trace:
        found = violations(testbench, unit)
        if found:
            return Rejected(violations=found)
        top = find_top(testbench, unit)
        if not isinstance(top, str):
            return top
        with simulation(self._tools, unit, limits) as under_way:
            try:
                under_way.translate(unit.files, testbench, top, settings=_settings(unit))
                under_way.compile(before_main=(SOURCES / "outputs.cpp").read_text())
                ran = under_way.run(seed)
                told = under_way.read("outputs.txt").split()
            except Stopped as stopped:
                return stopped.outcome
        if len(told) != 2:
            raise SimulatorError(f"the outputs of {unit.name} were not written: found {told}")
        return Traced(folded=told[0], changes=int(told[1]), ended=ran.ended)


def _settings(unit: Unit) -> str:
    """Return what makes the outputs visible, and stops counting."""
    visible = "".join(
        f'public_flat_rd -module "{unit.top}" -var "{port.name}"\n'
        for port in ports(unit)
        if port.direction != "in"
    )
    return NO_COVERAGE + visible

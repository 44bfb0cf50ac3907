"""Outputs while programs run, compared with those under the printed testbenches."""

import msgspec
import pytest

from coevolve.environments.hdl.designs.mutants import apply
from coevolve.environments.hdl.simulate.messages import Port, Unit
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from coevolve.environments.hdl.stimulus.language import parse
from coevolve.environments.hdl.stimulus.outputs import OutputHarness, is_told
from tests.small_designs import MUTANTS, PORTS, counter

pytestmark = pytest.mark.hdl

DESIGN = counter()
PROGRAMS = tuple(
    parse(text, PORTS, DESIGN.unit.clock, DESIGN.unit.reset)
    for text in ("rst 2\nset up=1 step=5\nstep 9", "rst 2\nset up=1 step=15\nstep 14", "rst 3")
)


async def told(simulator: VerilatorSimulator, unit: Unit) -> list[bytes]:
    harness = await OutputHarness.open(unit, PORTS, simulator.toolchain, simulator.sandbox)
    try:
        return [await harness.run(program, 1) for program in PROGRAMS]
    finally:
        await harness.close()


async def test_output_hashes_differ_only_under_programs_that_show_the_bug():
    simulator = open_simulator()
    golden = await told(simulator, DESIGN.unit)
    adds, late = [await told(simulator, apply(DESIGN.unit, mutant)) for mutant in MUTANTS]
    assert len(set(golden)) == 3
    assert await told(simulator, DESIGN.unit) == golden
    assert [one == other for one, other in zip(golden, adds, strict=True)] == [False, False, True]
    assert [one == other for one, other in zip(golden, late, strict=True)] == [True, False, True]
    assert [int.from_bytes(each[8:], "little") for each in golden[::2]] == [10, 1]


def test_wide_outputs_and_inouts_cannot_be_compared():
    wide = msgspec.structs.replace(PORTS[4], width=65)
    both = Port(name="pad", direction="inout", width=1)
    assert is_told(PORTS)
    assert not is_told((*PORTS, wide))
    assert not is_told((*PORTS, both))

import asyncio

import numpy as np
import pytest

from coevolve.environments.hdl.designs.rtl import ports
from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Covered,
    Evaluate,
    Reset,
    SourceFile,
    Stimulus,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from coevolve.environments.hdl.stimulus.harness import Harness
from coevolve.environments.hdl.stimulus.language import format, parse
from coevolve.environments.hdl.stimulus.random_program import draw
from protocols.errors import SimulatorError

pytestmark = pytest.mark.hdl

MIXED = """\
module mixed (
  input  logic        clock, reset, enable,
  input  logic [99:0] dut,
  input  logic [63:0] tick,
  input  logic [2:0]  random_tick,
  inout  wire  [3:0]  pad,
  output logic [129:0] sum,
  output logic        tb,
  output logic [7:0]  rng
);
  typedef enum logic [1:0] {OFF, ARMED, DONE} mode_t;
  mode_t mode;
  logic  held;
  always_latch if (!clock) held = enable;
  wire gated = clock & held;
  falling #(.WIDTH(8)) low (.clock, .d(tick[7:0]), .q(rng));
  falling #(.WIDTH(4)) high (.clock, .d(tick[11:8]), .q());
  always_ff @(posedge gated or posedge reset)
    if (reset) sum <= '0;
    else sum <= sum + {30'd0, dut};
  always_ff @(posedge clock or posedge reset)
    if (reset) mode <= OFF;
    else case (mode)
      OFF:     if (enable && random_tick == 3) mode <= ARMED;
      ARMED:   if (tick == 64'hdead_beef_0000_0001) mode <= DONE;
      default: if (sum[129] || !enable) mode <= OFF;
    endcase
  assign tb = dut[99] & (mode == DONE);
endmodule

module falling #(parameter WIDTH = 8) (
  input logic clock, input logic [WIDTH-1:0] d, output logic [WIDTH-1:0] q
);
  initial q = 3;
  always_ff @(negedge clock) if (d != q) q <= d; else q <= ~q;
endmodule
"""
"""Both edges, a latch, a gated clock, wide and open ports, and names that a testbench has."""

FRAGILE = """\
module fragile (input logic poke, spin, input logic [1:0] a, output logic [1:0] y);
  wire ring;
  logic spun;
  always_comb begin
    spun = 0;
    while (spin) spun = ~spun;
  end
  assign ring = poke & ~ring;
  assign y = a == 3 ? 2'd1 : a ^ {2{ring}};
endmodule
"""
"""A design without a clock that oscillates if ``poke`` is set and loops for ever if ``spin`` is."""


def unit_of(name: str, text: str, clock: str = "", reset: Reset | None = None) -> Unit:
    file = SourceFile(name=f"{name}.sv", text=text)
    return Unit(name=name, files=(file,), top=name, clock=clock, reset=reset)


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


async def by_testbench(
    simulator: VerilatorSimulator, unit: Unit, program: str, seed: int
) -> Coverage:
    submission = Stimulus(program=program)
    graded = await simulator.evaluate(Evaluate(unit=unit, submission=submission, seed=seed))
    assert isinstance(graded.outcome, Covered), graded.outcome
    assert graded.outcome.ended == "finish"
    return graded.outcome.coverage


async def test_programs_cover_what_their_testbenches_cover(simulator):
    unit = unit_of("mixed", MIXED, "clock", Reset(port="reset", active="high"))
    found = ports(unit)
    rng = np.random.default_rng(1)
    programs = [
        parse(
            "rst 1; set enable=1 random_tick=3 dut=max; step 2; set tick=0xdeadbeef00000001; step 1"
            "; wait tb=1 9; rep 3; rol tick dut; inc random_tick; once dut; inv enable; step 3; "
            "endrep; wait sum=0 40; inv dut",
            found,
            unit.clock,
            unit.reset,
        ),
        draw(rng, found, unit.clock, unit.reset, (3, 0xDEAD_BEEF_0000_0001), 60),
    ]
    harness = await Harness.open(unit, found, simulator.toolchain, simulator.sandbox)
    assert harness.points == await simulator.points(unit)
    covered = await harness.run(programs, 7)
    for program, coverage in zip(programs, covered, strict=True):
        assert coverage == await by_testbench(simulator, unit, format(program), 7)
    assert covered[0].hits != covered[1].hits
    await harness.close()


async def test_programs_do_not_affect_each_other(simulator):
    unit = unit_of("fragile", FRAGILE)
    found = ports(unit)
    programs = [
        parse(text, found, "", None) for text in ("set a=3; step 1", "rand a; step 9", "", "inc a")
    ]
    harness = await Harness.open(unit, found, simulator.toolchain, simulator.sandbox)
    alone = [(await harness.run([program], 1))[0] for program in programs]
    assert await harness.run(programs * 40, 1) == tuple(alone * 40)
    both = await asyncio.gather(harness.run(programs, 1), harness.run(programs[::-1], 1))
    assert both == [tuple(alone), tuple(alone[::-1])]
    assert alone[0] == await by_testbench(simulator, unit, "set a=3; step 1", 1)
    await harness.close()


@pytest.mark.parametrize("fault", ["poke", "spin"])
async def test_a_child_that_dies_or_hangs_raises_and_is_replaced(simulator, fault):
    unit = unit_of("fragile", FRAGILE)
    found = ports(unit)
    faulty, rest = (parse(f"set {fault}={on}; step 1", found, "", None) for on in (1, 0))
    tools = (simulator.toolchain, simulator.sandbox)
    harness = await Harness.open(unit, found, *tools, program_s=1)
    before = await harness.run([rest], 1)
    with pytest.raises(SimulatorError, match="ended before it answered"):
        await harness.run([rest, faulty, rest], 1)
    assert await harness.run([rest], 1) == before
    await harness.close()


async def test_a_closed_harness_starts_again(simulator):
    unit = unit_of("fragile", FRAGILE)
    found = ports(unit)
    program = parse("set a=3; step 1", found, "", None)
    harness = await Harness.open(unit, found, simulator.toolchain, simulator.sandbox)
    before = await harness.run([program], 1)
    await harness.close()
    await harness.close()
    assert await harness.run([program], 1) == before
    await harness.close()

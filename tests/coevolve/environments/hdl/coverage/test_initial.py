"""Initial values earn nothing, and stay visible to the design."""

import asyncio
from functools import cache

import pytest

from coevolve.environments.hdl.coverage.points import point_text
from coevolve.environments.hdl.simulate.compiled_harness import HarnessSimulator
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    SourceFile,
    Stimulus,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = pytest.mark.hdl

BLANK = "module tb; logic clk, d; logic [31:0] q; dut u(.*); endmodule"
PORTS = "module dut(input logic clk, input logic d, output logic [31:0] q);"
CLOCKED = "always_ff @(posedge clk) q <= q0 ^ {32{d}};"

DESIGNS = {
    "register": f"{PORTS} logic [31:0] q0 = 32'hFFFFFFFF; {CLOCKED} endmodule",
    "own line": f"{PORTS}\n  logic [31:0] q0 = 32'hFFFFFFFF;\n  {CLOCKED}\nendmodule",
    "several": f"{PORTS} logic [31:0] q0 = '1, other = 32'h55; int n = 7; {CLOCKED} endmodule",
    "array": f"{PORTS} logic [7:0] m [2] = '{{8'hFF, 8'h0F}}; logic [31:0] q0; "
    f"always_ff @(posedge clk) q0 <= 32'(m[d]); {CLOCKED} endmodule",
    "initial block": f"{PORTS} logic [31:0] q0; initial begin for (int i = 0; i < 32; i++) begin "
    f"if (i > 3 && i < 9) q0[i] = 0; else q0[i] = 1; end end {CLOCKED} endmodule",
    "later": f"{PORTS} logic [31:0] q0; initial q0 <= '1; {CLOCKED} endmodule",
    "output": f"{PORTS} logic [31:0] r = 32'h0F0F; assign q = r; "
    "always_ff @(posedge clk) r <= ~r; endmodule",
    "port": "module dut(input logic clk, input logic d, output logic [31:0] q = 32'hF0);\n"
    "always_ff @(posedge clk) q <= ~q; endmodule",
    "old port": "module dut(clk, d, q); input clk, d; output reg [31:0] q = 32'hF0;\n"
    "always @(posedge clk) q <= ~q; endmodule",
    "generate": f"{PORTS} logic [31:0] q0; for (genvar i = 0; i < 4; i++) begin : g "
    "logic [7:0] part = 8'hF0; assign q0[8*i +: 8] = part; "
    f"always_ff @(posedge clk) part <= ~part; end {CLOCKED} endmodule",
    "submodule": "module sub(output logic [31:0] o); logic [31:0] v = '1; assign o = v; endmodule\n"
    f"{PORTS} logic [31:0] q0; sub s(.o(q0)); {CLOCKED} endmodule",
}


@cache
def simulator() -> VerilatorSimulator:
    return open_simulator()


def unit(rtl: str, clock: str = "") -> Unit:
    files = (SourceFile(name="dut.sv", text=rtl),)
    return Unit(name="dut", files=files, top="dut", clock=clock)


def hits(of: Unit, testbench: str) -> tuple[set[str], set[str]]:
    """Return the points that the testbench covers, and all points."""
    request = Evaluate(unit=of, submission=Testbench(text=testbench))
    outcome = asyncio.run(simulator().evaluate(request)).outcome
    assert isinstance(outcome, Covered), outcome
    points = asyncio.run(simulator().points(of))
    covered = {point_text(each) for at, each in enumerate(points) if outcome.coverage.hit(at)}
    return covered, {point_text(each) for each in points}


def toggles(points: set[str]) -> set[str]:
    return {each for each in points if each.startswith("toggle ")}


@pytest.mark.parametrize("name", DESIGNS)
def test_a_blank_testbench_covers_nothing(name: str):
    covered, _ = hits(unit(DESIGNS[name]), BLANK)
    assert covered == set()


def test_combinational_outputs_that_begin_with_1_are_no_toggles():
    rtl = f"{PORTS} always_comb begin q = '1; if (d) q = 32'h5; end endmodule"
    covered, every = hits(unit(rtl), BLANK)
    assert toggles(covered) == set()
    driven = BLANK.replace(
        "endmodule", "initial begin d = 0; #5 d = 1; #5 d = 0; #5; end endmodule"
    )
    covered, _ = hits(unit(rtl), driven)
    missed = {text for text in toggles(every) - covered if " clk" not in text}
    assert missed == {text for text in toggles(every) if " q[0]:" in text or " q[2]:" in text}


def test_a_register_leaves_its_initial_value_with_a_toggle():
    clocked = BLANK.replace(
        "logic clk, d;", "logic clk = 0, d = 1; always #5 clk = ~clk; initial #50 $finish;"
    )
    rtl = f"{PORTS} logic [31:0] q0 = 32'hFF; always_ff @(posedge clk) q0 <= ~q0; endmodule"
    covered, _ = hits(unit(rtl), clocked)
    assert {f"toggle dut.sv:1:84 - q0[{bit}]:1->0" for bit in range(32)} <= {
        text.replace(text.split()[1], "dut.sv:1:84") for text in covered
    }


def test_an_initial_block_that_waits_keeps_its_points():
    rtl = f"{PORTS} logic [31:0] q0; initial begin q0 = 0; #7 q0 = 1; if (d) q0 = 2; end endmodule"
    covered, every = hits(unit(rtl), BLANK)
    assert {text.rpartition(" ")[2] for text in every - toggles(every)} == {"block", "if", "else"}
    assert any(text.endswith(" else") for text in covered)


def test_a_designer_s_own_comments_about_coverage_stay():
    rtl = (
        f"{PORTS} /*verilator coverage_off*/ logic [31:0] q0 = '1; logic hidden; "
        f"assign hidden = d; /*verilator coverage_on*/ {CLOCKED} endmodule"
    )
    _, every = hits(unit(rtl), BLANK)
    assert every
    assert not any("hidden" in text or "q0" in text for text in every)


@pytest.mark.parametrize("name", ["register", "output", "later"])
def test_a_stimulus_program_has_the_coverage_of_its_testbench(name: str):
    given = unit(DESIGNS[name], "clk")
    harnessed = HarnessSimulator(simulator())

    async def both() -> tuple[object, object]:
        program = Stimulus(program="set d=1\nstep 3\nset d=0\nstep 2\n")
        quick = await harnessed.evaluate(Evaluate(unit=given, submission=program))
        full = await simulator().evaluate(Evaluate(unit=given, submission=program))
        await harnessed.close()
        assert isinstance(quick.outcome, Covered)
        assert isinstance(full.outcome, Covered)
        return quick.outcome.coverage, full.outcome.coverage

    quick, full = asyncio.run(both())
    assert quick == full

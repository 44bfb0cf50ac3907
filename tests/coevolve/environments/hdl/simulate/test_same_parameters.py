"""Parameters with the design's own values are measured, however a testbench writes them."""

import asyncio

import pytest

from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    NotCovered,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import open_simulator

pytestmark = pytest.mark.hdl

RTL = """module m #(parameter W = 4*2, N = -1, parameter [7:0] V = 8'hFF,
  parameter type T = logic [3:0], parameter int A [2] = '{1, 2})
  (input logic clk, input logic [W-1:0] d, output logic [W-1:0] q);
  always_ff @(posedge clk) q <= d;
endmodule
"""
UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text=RTL),), top="m")


def outcome(parameters: str, before: str = "") -> object:
    text = f"""{before} module tb; logic clk = 0; logic [7:0] d = 0, q; always #5 clk = ~clk;
    m {parameters} dut (.*);
    initial begin repeat (9) begin @(negedge clk); d = d + 77; end $finish; end endmodule"""
    request = Evaluate(unit=UNIT, submission=Testbench(text=text))
    return asyncio.run(open_simulator().evaluate(request)).outcome


def test_the_coverage_is_that_of_an_instance_without_parameters():
    plain = outcome("")
    assert isinstance(plain, Covered)
    for same in ("#(.W(8), .N(-1))", "#(\n8, -1, '1)", "#(.T(logic [3:0]), .A('{1, 2}))"):
        found = outcome(same)
        assert isinstance(found, Covered), (same, found)
        assert found.coverage == plain.coverage, same


def test_a_value_that_only_the_simulator_sees_is_not_measured():
    other = "`ifdef VERILATOR\n`define N 7\n`else\n`define N 8\n`endif\n`define P #(.W(`N))\n"
    assert not isinstance(outcome("`P", other), Covered)
    assert isinstance(outcome("`P", "`define P #(.N(-1))\n"), NotCovered)

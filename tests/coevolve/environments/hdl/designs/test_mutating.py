"""Mutants that are made of any design."""

from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.mutants import apply
from coevolve.environments.hdl.designs.mutating import mutants_of
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit
from tests.commands import ROOT

RTL = """`define ADD a + b
module part (input logic [3:0] a, b, output logic [3:0] y); assign y = `ADD; endmodule
module unused (input logic [3:0] a, output logic [3:0] y); assign y = a - 4'd1; endmodule
module top #(parameter W = 4) (input logic clk, rst, go, input logic [W-1:0] a,
  output logic [3:0] q, y);
  typedef enum logic [1:0] {IDLE, RUN = 2'd2, REST} state_t;
  state_t state;
  part p (.a, .b(q), .y);
  initial q = 4'd7;
  always_ff @(posedge clk)
    if (rst) begin state <= IDLE; q <= '0; end
    else begin
      case (state)
        IDLE: if (go && a[3:1] <= 3'd5) state <= RUN;
        default: state <= REST;
      endcase
      for (int i = 0; i < 4; i++) q[i] <= ~a[i];
      assert (q != 4'd9);
      $display("%0d", 4'd3);
    end
endmodule
"""


def unit(text: str) -> Unit:
    return Unit(name="top", files=(SourceFile(name="top.sv", text=text),), top="top")


def test_operators_constants_resets_and_states_have_mutants_and_nothing_else():
    bugs = [each.bug for each in mutants_of(elaborate(unit(RTL)))]
    assert bugs == [
        "top.sv:11:20: `state <= IDLE;` is left out",
        "top.sv:11:29: `IDLE` becomes `RUN`",
        "top.sv:11:35: `q <= '0;` is left out",
        "top.sv:11:40: `'0` becomes `'1`",
        "top.sv:14:22: `&&` becomes `||`",
        "top.sv:14:32: `<=` becomes `<`",
        "top.sv:14:35: `3'd5` becomes `3'd4`",
        "top.sv:14:50: `RUN` becomes `REST`",
        "top.sv:15:27: `REST` becomes `IDLE`",
        "top.sv:17:43: `~a[i]` is not negated",
    ]


def test_fewer_mutants_are_of_all_kinds_and_the_same_each_time():
    four = mutants_of(elaborate(unit(RTL)), most=4)
    assert [each.bug.split(": ")[1] for each in four] == [
        "`state <= IDLE;` is left out",
        "`IDLE` becomes `RUN`",
        "`'0` becomes `'1`",
        "`&&` becomes `||`",
    ]
    assert four == mutants_of(elaborate(unit(RTL)), most=4)


def test_a_text_that_occurs_often_is_told_by_the_lines_around_it():
    lines = "".join(f"  assign y[{n}] =\n a[0] &\n b[0];\n" for n in range(4))
    ports = "input logic [3:0] a, b, output logic [3:0] y"
    design = unit(f"module top ({ports});\n{lines}endmodule\n")
    mutated = [apply(design, each).files[0].text for each in mutants_of(elaborate(design))]
    assert len(set(mutated)) == 12
    assert sum(text.count("|") == 1 and text.count("&") == 3 for text in mutated) == 4


@pytest.mark.parametrize(
    ("number", "other"),
    [("8'hA0", "8'ha1"), ("'b101", "'b100"), ("12", "13"), ("4'sd7", "4'sd6"), ("'1", "'0")],
)
def test_a_constant_has_its_lowest_bit_flipped(number: str, other: str):
    text = f"module top (output logic [7:0] y); assign y = {number}; endmodule\n"
    (mutant,) = mutants_of(elaborate(unit(text)))
    assert mutant.bug.endswith(f"becomes `{other}`")


def test_unknown_bits_stay():
    text = "module top (output logic y); assign y = 1'bx; endmodule\n"
    assert mutants_of(elaborate(unit(text))) == ()


@pytest.mark.parametrize("name", ["sync_fifo", "i2c_target", "width_fifo", "hamming_ecc"])
def test_mutants_of_the_project_s_designs_elaborate(name: str):
    design = load(Path(ROOT, "designs", name)).unit
    mutants = mutants_of(elaborate(design))
    assert 15 <= len(mutants) <= 20
    assert len({each.name for each in mutants}) == len(mutants)
    for mutant in mutants:
        mutated = apply(design, mutant)
        assert mutated.files != design.files
        elaborate(msgspec.structs.replace(mutated, clock=""))

"""A testbench may name the design's parameters, but not change them."""

import pytest

from coevolve.environments.hdl.gate.elaboration import find_top, without_parameters
from coevolve.environments.hdl.simulate.messages import (
    Rejected,
    SourceFile,
    Unit,
)

RTL = """module m #(parameter W = 8, N = 4, parameter [7:0] V = 8'hFF, parameter S = "ab",
  parameter real R = 1.5, parameter type T = logic [3:0]) (input logic [W-1:0] x);
  localparam L = W + N;
endmodule
"""
UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text=RTL),), top="m")


def found(parameters: str, before: str = "", rtl: str = RTL) -> list[str]:
    unit = Unit(name="m", files=(SourceFile(name="m.sv", text=rtl),), top="m")
    text = f"module tb; {before} logic [7:0] x; m {parameters} dut (.x); endmodule"
    answer = find_top(text, unit)
    if isinstance(answer, Rejected):
        return [each.message for each in answer.violations]
    assert answer == "tb"
    return []


@pytest.mark.parametrize(
    "parameters",
    [
        *("#(8)", "#(.W(8))", "#(.W(4'd8))", "#(.W(4+4))", "#(8, 4)", "#(.N(2*2), .W(8'h08))"),
        *("#(.W(K))", "#(.V(255))", "#(.V('1))", '#(.S("ab"))', "#(.R(3.0/2))", "#()", "#(.W())"),
        "#(.T(logic [3:0]))",
    ],
)
def test_the_design_s_own_values_may_be_given_in_any_form(parameters: str):
    assert found(parameters, "localparam K = 8;") == []


@pytest.mark.parametrize(
    ("parameters", "name", "here", "own"),
    [
        ("#(9)", "W", "9", "8"),
        ("#(.W(8), .N(3))", "N", "3", "4"),
        ("#(8, 5)", "N", "5", "4"),
        ("#(.W(4'd7))", "W", "7", "8"),
        ("#(.W(K - 1))", "W", "7", "8"),
        ("#(.V(8'hFE))", "V", "254", "255"),
        ("#(.R(1.25))", "R", "1.25", "1.5"),
        ("#(.T(logic [7:0]))", "T", "logic[7:0]", "logic[3:0]"),
    ],
)
def test_another_value_is_refused_with_both_values(parameters: str, name: str, here: str, own: str):
    assert found(parameters, "localparam K = 8;") == [
        f"parameter {name} of m is {here}, and the design's is {own}; leave it out, or give the "
        "design's value, or make the design by `coevolve hdl adopt --bench` with this testbench"
    ]


def test_an_instance_in_a_wrapper_or_an_array_is_compared_too():
    wrapped = "module w #(parameter A = 8); logic [A-1:0] x; m #(.W(A)) i (.x); endmodule "
    for instance, refused in (("w", False), ("w #(8)", False), ("w #(16)", True)):
        answer = find_top(f"{wrapped} module tb; {instance} u (); endmodule", UNIT)
        assert isinstance(answer, Rejected) == refused, instance
    two = "module tb; logic [7:0] x; m a (.x); m #(.W(7)) b (.x(x[6:0])); endmodule"
    assert "differ, by --gate trusted and --instance" in str(find_top(two, UNIT))
    array = "module tb; logic [7:0] x; m #(.W(7)) dut [1:0] (.x(x[6:0])); endmodule"
    assert isinstance(find_top(array, UNIT), Rejected)


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("m #(.W(8)) dut (.x);", "#(.W(8))"),
        ("m #(\n  .N(-(-4)),\r\n  .V('1)) a (.x), b (.x);", "#(\n  .N(-(-4)),\r\n  .V('1))"),
        ("/* \u00e9\u4e2d */ m #(8) dut (.x);", "#(8)"),
        ("m dut (.x); /* m #(9) */", ""),
        ("w #(.A(8)) m (.x); initial #5 $finish;", ""),
        ("`define P #(8)\n m `P dut (.x);", ""),
        ("`ifdef OFF\n m #(9) dut (.x);\n`endif", ""),
        ("`ifdef VERILATOR\n m #(9) dut (.x);\n`endif", "#(9)"),
    ],
)
def test_blanks_replace_the_parameters_of_the_design_s_instances_only(text: str, removed: str):
    around = "module tb; logic [7:0] x; {} endmodule"
    blanks = "".join(char if char in "\r\n" else " " for char in removed)
    expected = text.replace(removed, blanks)
    assert without_parameters(around.format(text), UNIT, "tb") == around.format(expected)


def test_instances_with_other_values_keep_theirs_in_a_trusted_testbench():
    text = "module tb; logic [7:0] x; m #(.W(8)) a (.x); m #(.W(4)) b (.x(x[3:0])); endmodule"
    expected = text.replace("#(.W(8))", "        ")
    assert without_parameters(text, UNIT, "tb", trusted=True) == expected

import pytest

from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit

PACKAGE = "package kinds; localparam logic [7:0] KEY = 8'h5a; endpackage\n"
MODULE = "module lock(input logic [7:0] k, output logic o); assign o = k == KEY; endmodule\n"
INSIDE = MODULE.replace("lock(", "lock import kinds::*; (")
TB = "module tb; logic [7:0] k; logic o; lock dut(.k, .o); endmodule : tb\n"


def messages(rtl: str, testbench: str) -> list[str]:
    unit = Unit(name="lock", files=(SourceFile(name="lock.sv", text=rtl),), top="lock")
    return [each.message for each in violations(testbench, unit)]


EXPOSED = f"{PACKAGE}import kinds::*;\n{MODULE}"


@pytest.mark.parametrize(
    ("outside", "word"),
    [
        ("localparam logic [7:0] KEY = 0;", "'localparam' outside of every module"),
        ("package own; parameter KEY = 0; endpackage import own::KEY;", "'import' outside"),
        ("`define SAY parameter KEY = 0;\n`SAY", "'parameter' outside"),
        ("interface class c; endclass parameter KEY = 0;", "'interface' outside"),
        ("extern module m(interface i); parameter KEY = 0;", "'parameter' outside"),
        ("virtual interface v; parameter KEY = 0;", "'virtual' outside"),
        ("class c; endclass", "'class' outside"),
        ("module other;", "outside of every module"),
    ],
)
def test_declarations_beside_a_design_with_outer_imports_are_refused(outside: str, word: str):
    found = messages(EXPOSED, f"{outside}\n{TB}")
    assert any(word in each for each in found)
    assert not messages(PACKAGE + INSIDE, f"localparam OTHER = 1;\n{TB}")


def test_modules_and_packages_are_allowed_there():
    more = "`timescale 1ns/1ps\npackage own; typedef int t; endpackage\n"
    port = "module m(interface i, input own::t x); virtual interface v; endmodule\n"
    assert not messages(EXPOSED, more + port + TB)

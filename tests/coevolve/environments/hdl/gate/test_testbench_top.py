import pytest

from coevolve.environments.hdl.gate.elaboration import find_top
from coevolve.environments.hdl.simulate.messages import NotCovered, SourceFile, Unit

UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text=""),), top="m")


@pytest.mark.parametrize(
    ("testbench", "top"),
    [
        ("module tb; m #(.W(3)) dut (.*); endmodule", "tb"),
        ("module h; if (1) begin : g m u (); end endmodule module tb; h h1 (); endmodule", "tb"),
        ("module spare; endmodule module tb; m u (); endmodule", "tb"),
        ("`define DUT m\nmodule tb; `DUT u (); class c; endclass endmodule", "tb"),
        ("interface i; endinterface module tb; i bus (); m u (); endmodule", "tb"),
    ],
)
def test_the_top_is_the_module_that_nothing_instantiates(testbench: str, top: str):
    assert find_top(testbench, UNIT) == top


@pytest.mark.parametrize(
    ("testbench", "told"),
    [
        ("", ""),
        ("module tb; initial $finish; endmodule", ""),
        ("module a; m u (); endmodule module b; m u (); endmodule", ""),
        ("module a; b x (); endmodule module b; a y (); m u (); endmodule", ""),
        ("module tb; m u (); endmodule", "bench"),
    ],
)
def test_no_top_or_several_tops_are_not_covered(testbench: str, told: str):
    assert isinstance(find_top(testbench, UNIT, told), NotCovered)


def test_a_given_top_is_used():
    two = "module a; m u (); endmodule module b; m u (); endmodule"
    assert find_top(two, UNIT, "b") == "b"

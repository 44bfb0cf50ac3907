import pytest

from coevolve.hdl.testbench_top import choose_instance, find_top
from protocols.hardware import NotCovered, SourceFile, Unit

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
def test_where_there_is_none_or_several_nothing_is_covered(testbench: str, told: str):
    assert isinstance(find_top(testbench, UNIT, told), NotCovered)


def test_a_top_that_is_told_decides():
    two = "module a; m u (); endmodule module b; m u (); endmodule"
    assert find_top(two, UNIT, "b") == "b"


def test_the_instance_is_the_only_one_or_the_one_that_is_told():
    assert choose_instance(["tb.dut"], UNIT) == "tb.dut"
    assert choose_instance(["tb.g[0].dut", "tb.other"], UNIT, "dut") == "tb.g[0].dut"
    several = choose_instance(["tb.a", "tb.b"], UNIT)
    assert isinstance(several, NotCovered)
    assert "tb.a, tb.b" in several.message
    assert isinstance(choose_instance(["tb.a"], UNIT, "dut"), NotCovered)

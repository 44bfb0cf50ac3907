"""Which of several instances of a design count, and with which parameters."""

import pytest

from coevolve.environments.hdl.adopt.bench_parameters import bench_use
from coevolve.environments.hdl.gate.elaboration import BenchUse
from coevolve.environments.hdl.simulate.messages import NotCovered, SourceFile, Unit

RTL = "module m #(parameter W = 4, N = 2) (input [W-1:0] x); endmodule\n"
UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text=RTL),), top="m")
WIDE, PLAIN, BOTH = "m #(.W(8)) wide ();", "m plain ();", "m #(.W(4), .N(3)) both [2] ();"
SAME = "m #(.W(4)) same ();"


@pytest.mark.parametrize(
    ("instances", "named", "values", "counted"),
    [
        (WIDE, "", {"W": "8"}, ("tb.wide",)),
        (f"{WIDE} {PLAIN}", "", {}, ("tb.plain",)),
        (f"{WIDE} {BOTH}", "", {"W": "8"}, ("tb.wide",)),
        (f"{PLAIN} {SAME}", "", {}, ("tb.plain", "tb.same")),
        (f"{PLAIN} {SAME}", "same", {"W": "4"}, ("tb.same",)),
        (f"{BOTH} {WIDE}", "wide", {"W": "8"}, ("tb.wide",)),
        (BOTH, "", {"W": "4", "N": "3"}, ("tb.both[0]", "tb.both[1]")),
        (BOTH, "both[1]", {"W": "4", "N": "3"}, ("tb.both[1]",)),
    ],
)
def test_an_instance_counts_if_the_others_keep_their_values(
    instances: str, named: str, values: dict[str, str], counted: tuple[str, ...]
):
    use = bench_use(f"module tb; {instances} endmodule", UNIT, instance=named)
    assert isinstance(use, BenchUse)
    assert (use.parameters, use.counted, use.conflict) == (values, counted, "")


def test_an_instance_that_would_change_another_is_refused_with_its_parameter():
    use = bench_use(f"module tb; {PLAIN} {WIDE} endmodule", UNIT, instance="wide")
    assert isinstance(use, BenchUse)
    assert "tb.wide gives W, and tb.plain leaves it out; give it there too" in use.conflict
    absent = bench_use(f"module tb; {PLAIN} endmodule", UNIT, instance="other")
    assert absent == NotCovered(
        message="the testbench needs an instance of m called 'other' below tb, found tb.plain"
    )

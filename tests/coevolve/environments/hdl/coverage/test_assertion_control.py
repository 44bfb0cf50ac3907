"""A testbench that turns assertions off turns no coverage off."""

import asyncio
from functools import cache

import pytest

from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Covered,
    Evaluate,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = pytest.mark.hdl

RTL = """module fsm(input logic clk, input logic rst_n, input logic go, output logic busy);
  typedef enum logic [1:0] {IDLE, RUN, DONE} state_t;
  state_t s;
  always_ff @(posedge clk or negedge rst_n)
    if (!rst_n) s <= IDLE;
    else case (s)
      IDLE: if (go) s <= RUN;
      RUN: s <= DONE;
      default: s <= IDLE;
    endcase
  assign busy = s == RUN;
endmodule
"""
PAIR = (
    RTL
    + """module pair(input logic clk, input logic rst_n, input logic go, output logic busy);
  logic other; /* both */ fsm left (.*, .busy(other)); fsm right (.*, .go(!go)); endmodule
"""
)


def unit(rtl: str, top: str) -> Unit:
    return Unit(name=top, files=(SourceFile(name="m.sv", text=rtl),), top=top)


@cache
def simulator() -> VerilatorSimulator:
    return open_simulator()


def coverage(code: str, of: Unit) -> Coverage:
    text = f"""module tb; logic clk=0, rst_n=0, go=0, busy; {of.top} u(.*); always #5 clk=~clk;
    initial begin {code} #12 rst_n=1; go=1; repeat (10) @(negedge clk); $finish; end
    assert property (@(posedge clk) disable iff (!rst_n) busy |=> !busy);
    endmodule"""
    request = Evaluate(unit=of, submission=Testbench(text=text))
    outcome = asyncio.run(simulator().evaluate(request)).outcome
    assert isinstance(outcome, Covered), outcome
    return outcome.coverage


def states(found: Coverage) -> tuple[int, int]:
    (kind,) = [each for each in found.kinds if each.metric == "fsm"]
    return kind.covered, kind.total


@pytest.mark.parametrize(
    "code",
    [
        *("$assertoff;", "$assertoff(0, tb);", "$assertoff(0, tb.u);", "$assertkill;"),
        *("$assertcontrol(4);", "$assertcontrol(5, 255, 7);", "$assertcontrol(3, 2, 2);"),
        *("$assertpassoff; $assertvacuousoff;", "$assertoff; #3 $asserton;"),
        "$assertoff; $assertcontrol(1); $asserton;",
    ],
)
def test_states_and_arcs_are_counted_whatever_a_testbench_does_to_assertions(code: str):
    given = unit(RTL, "fsm")
    assert coverage(code, given) == coverage("", given)
    assert states(coverage(code, given)) == (6, 6)


def test_each_instance_and_several_modules_of_a_line_are_counted():
    given = unit(PAIR.replace("endmodule\nmodule pair", "endmodule module pair"), "pair")
    # The right machine leaves its first state never: its input is 0 when the reset has ended.
    assert states(coverage("$assertoff;", given)) == states(coverage("", given)) == (7, 12)


def test_a_design_that_turns_its_assertions_off_is_counted_too():
    quiet = RTL.replace("endmodule", "initial $assertoff; endmodule")
    assert states(coverage("", unit(quiet, "fsm"))) == (6, 6)

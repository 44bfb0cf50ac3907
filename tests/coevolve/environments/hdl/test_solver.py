"""Limits of the solver of constrained `randomize()`, and the outcome of a run that exceeds them."""

import asyncio

import msgspec
import pytest

from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Evaluated,
    SimulationLimits,
    SourceFile,
    Testbench,
    TimedOut,
    Unit,
)
from coevolve.environments.hdl.simulate.stage_limits import SOLVER_CPU_S
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = [pytest.mark.hdl, pytest.mark.timeout(300)]

RTL = "module m (input logic [7:0] a, output logic q);\n  assign q = a == 8'd7;\nendmodule\n"
UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text=RTL),), top="m")

BENCH = """module tb;
  class item;
    rand bit [7:0] a;
    rand bit [WIDTH-1:0] x, y;
    constraint c { CONSTRAINT }
  endclass
  logic [7:0] a = 0;
  logic q;
  int done = 0;
  m dut (.*);
  initial begin
    item made = new;
    repeat (TIMES) begin
      done += made.randomize();
      a = made.a;
      #1;
    end
    $display("%0d of TIMES", done);
    $finish;
  end
endmodule
"""

FACTORS = "x * y == 64'h7fffffffffffffe7; x > 1; y > x; y < 64'h1000000000; x * x % y == 17;"


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


def graded(
    simulator: VerilatorSimulator, constraint: str, *, width: int, times: int, **limits: int
) -> Evaluated:
    text = BENCH.replace("CONSTRAINT", constraint)
    text = text.replace("WIDTH", str(width)).replace("TIMES", str(times))
    request = Evaluate(
        unit=UNIT,
        submission=Testbench(text=text),
        limits=msgspec.structs.replace(SimulationLimits(), **limits),
    )
    return asyncio.run(simulator.evaluate(request))


def simulation_cpu_s(evaluated: Evaluated) -> float:
    return sum(cost.cpu_s for cost in evaluated.stages if cost.stage == "simulate")


def test_easy_constraints_are_solved_deterministically(simulator: VerilatorSimulator):
    first, second = (
        graded(simulator, "a inside {[5:9]}; x < y;", width=16, times=60) for _ in range(2)
    )
    assert isinstance(first.outcome, Covered)
    assert "60 of 60" in first.outcome.log
    assert first.outcome == second.outcome


def test_an_unsolvable_constraint_fails_and_the_run_continues(simulator: VerilatorSimulator):
    found = graded(simulator, "a > 5; a < 5;", width=16, times=3).outcome
    assert isinstance(found, Covered)
    assert "0 of 3" in found.log


def test_a_hard_constraint_ends_the_run_by_the_solver_s_own_count(simulator: VerilatorSimulator):
    found = graded(simulator, FACTORS, width=64, times=1)
    assert isinstance(found.outcome, TimedOut)
    assert "took more than 10000000 steps" in found.outcome.message
    assert simulation_cpu_s(found) < SOLVER_CPU_S


def test_the_steps_of_all_calls_count_together(simulator: VerilatorSimulator):
    easy = "a inside {[5:9]}; x < y;"
    few = graded(simulator, easy, width=16, times=1, solver_steps=1_000_000).outcome
    many = graded(simulator, easy, width=16, times=200, solver_steps=1_000_000).outcome
    assert isinstance(few, Covered)
    assert isinstance(many, TimedOut)
    assert "took more than 1000000 steps" in many.message


def test_a_dead_solver_is_not_an_unsolvable_constraint(simulator: VerilatorSimulator):
    found = graded(simulator, "x * y == 17; x > 1; x * x % y == 17;", width=512, times=1)
    assert isinstance(found.outcome, TimedOut)
    assert found.outcome.stage == "simulate"
    assert f"{SOLVER_CPU_S:g} s of CPU time or 750 MB of memory" in found.outcome.message


def test_the_cpu_time_of_the_solver_is_counted(simulator: VerilatorSimulator):
    assert simulation_cpu_s(graded(simulator, FACTORS, width=64, times=1)) > 0.5

"""Functional coverage in files that are bound to a design."""

from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.coverage.plan import check_plan
from coevolve.environments.hdl.evaluation.grade_testbench import RAN
from coevolve.environments.hdl.simulate.compiled_harness import HarnessSimulator
from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Covered,
    Evaluate,
    NotCovered,
    Outcome,
    Rejected,
    SourceFile,
    Stimulus,
    Testbench,
    Unit,
    verdict_of,
)
from coevolve.environments.hdl.simulate.summary import faults
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from protocols.errors import ConfigError
from tests.commands import answered

pytestmark = pytest.mark.hdl

RTL = """module half (input logic clk, d, output logic q);
  always_ff @(posedge clk) q <= d;
endmodule
module fifo (input logic clk, rst_n, push, pop, output logic full, empty, output logic [2:0] cnt);
  logic unused;
  half inner (.clk, .d(push), .q(unused));
  always_ff @(posedge clk)
    if (!rst_n) cnt <= 0; else cnt <= cnt + 3'(push && !full) - 3'(pop && !empty);
  assign full = cnt == 4; assign empty = cnt == 0;
endmodule
"""
PLAN = """module watch (input logic clk, push, pop, full, input logic [2:0] cnt);
  covergroup cg @(posedge clk);
    level: coverpoint cnt { bins zero = {0}; bins mid = {[1:3]}; bins top = {4};
      ignore_bins never = {5}; illegal_bins over = {[6:7]}; }
    ops: coverpoint {push, pop} { bins idle = {0}; bins po = {1}; bins pu = {2}; bins both = {3}; }
    both: cross level, ops;
    edges: coverpoint full { bins rise = (0 => 1); bins fall = (1 => 0); }
  endgroup
  cg group = new;
  drained: cover property (@(posedge clk) full ##1 pop ##1 !full);
  refused: cover property (@(posedge clk) full && push);
endmodule
bind fifo watch look (.*);
"""
INNER = """module see (input logic clk, d);
  covergroup cg @(posedge clk); high: coverpoint d { bins yes = {1}; } endgroup
  cg group = new;
endmodule
bind half see eye (.*);
"""
OPENING = """module tb;
  logic clk = 0, rst_n = 0, push = 0, pop = 0, full, empty; logic [2:0] cnt;
  fifo dut (.*);
  always #5 clk = ~clk;
"""
FILLS = """  initial begin
    #22 rst_n = 1; push = 1; #60 push = 0; pop = 1; #20 $finish;
  end
"""
OWN = """  covergroup cg @(posedge clk);
    ops: coverpoint {push, pop} { bins both = {[0:3]}; }
  endgroup
  cg mine = new;
  drained: cover property (@(posedge clk) 1);
"""


def unit(*plan: str, rtl: str = RTL) -> Unit:
    files = tuple(SourceFile(name=f"plan{n}.sv", text=text) for n, text in enumerate(plan))
    return Unit(
        name="fifo",
        files=(SourceFile(name="fifo.sv", text=rtl),),
        plan=files,
        top="fifo",
        clock="clk",
    )


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


async def run(simulator: VerilatorSimulator, body: str, design: Unit) -> Outcome:
    text = f"{OPENING}{body}endmodule\n"
    return (
        await simulator.evaluate(Evaluate(unit=design, submission=Testbench(text=text)))
    ).outcome


def kinds(coverage: Coverage) -> dict[str, tuple[int, int]]:
    return {each.metric: (each.covered, each.total) for each in coverage.kinds}


async def test_the_bins_of_a_plan_count_and_those_of_a_testbench_do_not(
    simulator: VerilatorSimulator,
):
    plain, planned = unit(), unit(PLAN)
    code = await run(simulator, FILLS, plain)
    found = await run(simulator, FILLS, planned)
    own = await run(simulator, OWN + FILLS, planned)
    assert isinstance(code, Covered)
    assert isinstance(found, Covered)
    assert isinstance(own, Covered)
    assert own.coverage == found.coverage
    points = [each for each in await simulator.points(planned) if each.metric == "plan"]
    every = await simulator.points(planned)
    missed = {
        point.name
        for index, point in enumerate(every)
        if point.metric == "plan" and not found.coverage.hit(index)
    }
    assert len(points) == 3 + 4 + 12 + 2 + 2
    assert missed == {
        "bin cg.ops.both",
        *(f"bin cg.both.{level}_x_both ({level} with both)" for level in ("zero", "mid", "top")),
        *(f"bin cg.both.{level}_x_idle ({level} with idle)" for level in ("mid", "top")),
        "bin cg.both.zero_x_po (zero with po)",
    }
    assert kinds(found.coverage) == kinds(code.coverage) | {"plan": (16, 23)}


async def test_illegal_bins_and_assertions_of_a_plan_fail_the_run(simulator: VerilatorSimulator):
    strict = PLAN.replace("over = {[6:7]}", "over = {4}").replace("bins top = {4};", "")
    found = await run(simulator, FILLS, unit(strict))
    assert verdict_of(found) == "failed"
    assert "Illegal bin 'over' hit" in faults(found)[0]
    asserted = PLAN.replace("endmodule", "assert property (@(posedge clk) cnt < 4);\nendmodule")
    found = await run(simulator, FILLS, unit(asserted))
    assert "errors, the first: plan0.sv" in faults(found)[0]


async def test_a_testbench_cannot_sample_the_plan_past_the_design(simulator: VerilatorSimulator):
    beside = "  logic [2:0] high = 4; watch mine (.clk, .push, .pop, .full, .cnt(high));\n" + FILLS
    outcome = await run(simulator, beside, unit(PLAN))
    assert isinstance(outcome, NotCovered)
    assert "a part of it in tb.mine" in outcome.message
    part = "  logic one = 1, two; half mine (.clk, .d(one), .q(two));\n" + FILLS
    assert isinstance(await run(simulator, part, unit(INNER)), NotCovered)
    assert isinstance(await run(simulator, part, unit(PLAN)), Covered)
    inside = FILLS.replace("$finish", "dut.look.group.sample(); $finish")
    assert isinstance(await run(simulator, inside, unit(PLAN)), Rejected)
    again = FILLS + "endmodule\nmodule watch;\n"
    assert isinstance(await run(simulator, again, unit(PLAN)), Rejected)


@pytest.mark.parametrize(
    "program",
    [
        "set rst_n=1\nset push=1\nstep 9\n",
        "step 2\nset rst_n=1\nrand push\nrand pop\nstep 40\n",
        "set rst_n=1\nset push=1\nstep 6\nset push=0\nset pop=1\nstep 6\n",
    ],
)
async def test_a_compiled_program_has_the_plan_of_its_testbench(
    simulator: VerilatorSimulator, program: str
):
    quick = HarnessSimulator(simulator)
    request = Evaluate(unit=unit(PLAN), submission=Stimulus(program=program))
    try:
        found = await quick.evaluate(request)
        assert await quick.points(request.unit) == await simulator.points(request.unit)
    finally:
        await quick.close()
    printed = await simulator.evaluate(request)
    assert {each.stage for each in found.stages} == {"check", "simulate"}, "compiled once"
    assert isinstance(found.outcome, Covered)
    assert isinstance(printed.outcome, Covered)
    assert found.outcome.coverage == printed.outcome.coverage
    covered, total = kinds(found.outcome.coverage)["plan"]
    assert (covered > 0, total) == (True, 23)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class c; endclass", "outside of them: 'class c"),
        ("covergroup cg; endgroup", "outside of them: 'covergroup cg"),
        ("package p; endpackage\nmodule m; endmodule", "outside of them: 'package p"),
    ],
)
def test_a_plan_has_modules_and_binds_alone(text: str, words: str):
    with pytest.raises(ConfigError, match=words):
        check_plan(unit(text))
    check_plan(unit(PLAN, INNER))
    same = SourceFile(name="fifo.sv", text=PLAN)
    with pytest.raises(ConfigError, match="another name"):
        check_plan(msgspec.structs.replace(unit(), plan=(same,)))


def test_the_command_takes_a_plan_and_names_its_gaps(tmp_path: Path):
    for name, text in (("q.sv", RTL), ("p.sv", PLAN), ("tb.sv", f"{OPENING}{FILLS}endmodule\n")):
        (tmp_path / name).write_text(text)
    words = ("--rtl", str(tmp_path / "q.sv"), "--plan", str(tmp_path / "p.sv"), "--dut", "fifo")
    told = answered("hdl", "simulate", *words, str(tmp_path / "tb.sv"))
    assert told.returncode == RAN
    assert "plan        16 of 23" in told.stdout
    assert "p.sv:6 bin cg.both.mid_x_idle (mid with idle) never hit" in told.stdout
    (tmp_path / "p.sv").write_text(PLAN.replace("coverpoint cnt", "coverpoint count"))
    wrong = answered("hdl", "simulate", *words, str(tmp_path / "tb.sv"))
    assert wrong.returncode == 2
    assert "p.sv:3" in wrong.stderr

import asyncio
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.coverage.points import point_text
from coevolve.environments.hdl.evaluation.grade_testbench import BLAMED, MISUSED, RAN
from coevolve.environments.hdl.simulate.messages import (
    BadStimulus,
    CompileFailed,
    Covered,
    Evaluate,
    NotCovered,
    Outcome,
    Patch,
    PatchFailed,
    Rejected,
    Reset,
    SimulationFailed,
    SimulationLimits,
    SourceFile,
    Stimulus,
    Testbench,
    TimedOut,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from protocols.errors import ConfigError
from tests.commands import answered

pytestmark = pytest.mark.hdl

HEADER = "`define WIDTH 4\n"
RTL = """`include "width.svh"
module walker (input logic clk, rst_n, go, input logic [`WIDTH-1:0] x, output logic busy);
  typedef enum logic [1:0] {IDLE, RUN, REST} state_t;
  state_t state;
  always_ff @(posedge clk or negedge rst_n)
    if (!rst_n) state <= IDLE;
    else case (state)
      IDLE: if (go) state <= RUN;
      RUN: if (x == 4'd9) state <= REST;
      default: state <= IDLE;
    endcase
  assign busy = state != IDLE;
endmodule
"""
UNIT = Unit(
    name="walker",
    files=(
        SourceFile(name="width.svh", text=HEADER),
        SourceFile(name="walker.sv", text=RTL),
    ),
    top="walker",
    clock="clk",
    reset=Reset(port="rst_n", active="low"),
)
OPENING = """module tb;
  logic clk = 0, rst_n = 0, go = 0, busy;
  logic [3:0] x = 0;
  walker dut (.*);
"""
CLOCK = "  always #5 clk = ~clk;\n"
RUNS = OPENING + CLOCK + "  initial begin #12 rst_n = 1; go = 1; #40 $finish; end\nendmodule\n"


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


def bench(body: str, clock: str = CLOCK) -> Testbench:
    return Testbench(text=f"{OPENING}{clock}{body}\nendmodule\n")


async def outcome(simulator: VerilatorSimulator, request: Evaluate) -> Outcome:
    return (await simulator.evaluate(request)).outcome


async def test_a_testbench_is_scored_over_the_design_s_points(simulator: VerilatorSimulator):
    request = Evaluate(unit=UNIT, submission=Testbench(text=RUNS))
    first, second = await asyncio.gather(simulator.evaluate(request), simulator.evaluate(request))
    assert (first.outcome, first.key) == (second.outcome, second.key)
    assert isinstance(first.outcome, Covered)
    points = await simulator.points(UNIT)
    hit = {
        point.name
        for index, point in enumerate(points)
        if point.metric == "fsm" and first.outcome.coverage.hit(index)
    }
    assert {point.name for point in points if point.metric == "fsm"} - hit == {
        *("REST", "RUN->REST", "REST->IDLE")
    }
    assert hit == {"IDLE", "RUN", "IDLE->RUN"}
    assert first.outcome.ended == "finish"
    assert [kind.metric for kind in first.outcome.coverage.kinds] == [
        *("line", "branch", "expr", "toggle", "fsm")
    ]
    assert {cost.stage for cost in first.stages} == {
        *("check", "verilate", "compile", "link", "simulate", "read")
    }
    other_seed = await simulator.evaluate(msgspec.structs.replace(request, seed=0))
    assert other_seed.key != first.key


@pytest.mark.parametrize(
    ("body", "clock", "ended"),
    [
        (
            'initial begin $error("a"); #1 assert (0); #1 if (!$test$plusargs("x")) $display("b"); '
            "$stop; end",
            CLOCK,
            "finish",
        ),
        ("initial #12 rst_n = 1;", CLOCK, "slot_limit"),
        ("initial #12 rst_n = 1;", "", "quiet"),
    ],
)
async def test_the_outcome_states_how_a_simulation_ended(
    simulator: VerilatorSimulator, body: str, clock: str, ended: str
):
    request = Evaluate(unit=UNIT, submission=bench(body, clock), limits=SimulationLimits(slots=100))
    found = await outcome(simulator, request)
    assert isinstance(found, Covered)
    assert found.ended == ended
    assert found.slots == (100 if ended == "slot_limit" else found.slots)
    assert ("b\n" in found.log) == (ended == "finish")


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('initial $system("id");', Rejected, "$system"),
        ("initial begin nothing = 1; $finish; end", CompileFailed, "tb.sv:6:15: error: "),
        ("initial begin", CompileFailed, "tb.sv:"),
        ('initial #1 $fatal(1, "gone");', SimulationFailed, "gone"),
        ("walker other (.*); initial $finish;", NotCovered, "tb.dut, tb.other"),
        ("initial while (1) x = x + 1;", TimedOut, "1 s of CPU time"),
    ],
)
async def test_failures_of_a_testbench_are_graded(
    simulator: VerilatorSimulator, text: str, kind: type[Outcome], words: str
):
    request = Evaluate(unit=UNIT, submission=bench(text), limits=SimulationLimits(cpu_s=1.0))
    found = await simulator.evaluate(request)
    assert isinstance(found.outcome, kind)
    assert found.reward == 0.0
    told = msgspec.json.encode(found.outcome).decode()
    assert words in told
    assert "/" not in told


async def test_a_flood_of_output_is_cut_and_the_coverage_kept(simulator: VerilatorSimulator):
    flood = bench('initial begin repeat (20000) $display("0123456789"); $finish; end')
    found = await outcome(simulator, Evaluate(unit=UNIT, submission=flood))
    assert isinstance(found, Covered)
    assert len(found.log) <= 2000


async def test_patches_and_stimuli_are_testbenches(simulator: VerilatorSimulator):
    patch = Patch(
        base=RUNS,
        text="@@\n   walker dut (.*);\n-  always #5 clk = ~clk;\n+  initial #1 $finish;\n",
    )
    broken = Patch(base=RUNS, text="@@\n-  nothing of the kind\n+  x\n")
    stimulus = Stimulus(program="rst 2\nset go=1\nstep 3\n")
    unknown = Stimulus(program="set nothing=1\n")
    found = [
        await simulator.evaluate(Evaluate(unit=UNIT, submission=submission))
        for submission in (patch, broken, stimulus, unknown)
    ]
    kinds = [type(evaluated.outcome) for evaluated in found]
    assert kinds == [Covered, PatchFailed, Covered, BadStimulus]
    assert "initial #1 $finish;" in found[0].testbench
    assert "walker" in found[2].testbench


async def test_a_design_that_contradicts_its_file_is_refused(simulator: VerilatorSimulator):
    changed = msgspec.structs.replace(UNIT, points_sha256="0" * 64)
    with pytest.raises(ConfigError, match="the frozen hash is"):
        await simulator.points(changed)
    unknown = msgspec.structs.replace(UNIT, unreachable=("line walker.sv:99:1 - block",))
    with pytest.raises(ConfigError, match="did you mean"):
        await simulator.evaluate(Evaluate(unit=unknown, submission=Testbench(text=RUNS)))
    broken = SourceFile(name="walker.sv", text=RTL.replace("IDLE: if", "IDEL: if"))
    unit = msgspec.structs.replace(UNIT, files=(UNIT.files[0], broken))
    with pytest.raises(ConfigError, match=r"walker\.sv:8:7: error: .*IDEL"):
        await simulator.points(unit)


async def test_the_overall_average_leaves_unreachable_points_out(simulator: VerilatorSimulator):
    request = Evaluate(unit=UNIT, submission=Testbench(text=RUNS))
    whole = await outcome(simulator, request)
    points = await simulator.points(UNIT)
    assert isinstance(whole, Covered)
    missed = tuple(
        point_text(point) for index, point in enumerate(points) if not whole.coverage.hit(index)
    )
    reachable = msgspec.structs.replace(UNIT, unreachable=missed)
    found = await outcome(simulator, msgspec.structs.replace(request, unit=reachable))
    assert isinstance(found, Covered)
    assert found.coverage.hits == whole.coverage.hits
    assert found.coverage.overall_average == 1.0


def test_the_command_line_prints_the_coverage(tmp_path: Path):
    for file in UNIT.files:
        (tmp_path / file.name).write_text(file.text)
    (tmp_path / "tb.txt").write_text(RUNS)
    (tmp_path / "bad.txt").write_text(RUNS.replace("busy;", "bus;"))
    rtl = [f"--rtl={tmp_path / file.name}" for file in UNIT.files]
    good = answered("hdl", "simulate", *rtl, "--dut=walker", str(tmp_path / "tb.txt"))
    assert good.returncode == RAN
    assert "walker: success" in good.stdout
    assert "REST never entered" in good.stdout
    bad = answered("hdl", "simulate", *rtl, "--dut=walker", "--json", str(tmp_path / "bad.txt"))
    assert bad.returncode == BLAMED
    assert '"status": "compile_failed"' in bad.stdout
    wrong = answered("hdl", "simulate", *rtl, "--dut=runner", str(tmp_path / "tb.txt"))
    assert wrong.returncode == MISUSED
    assert "'runner'" in wrong.stderr

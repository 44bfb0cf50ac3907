"""The trial of testbenches on mutants: what it finds, what it costs nothing, and what it earns."""

import asyncio

import msgspec
import pytest

from coevolve.environments.hdl.designs.mutants import apply
from coevolve.environments.hdl.designs.output_trace import OutputTracer, traced, traced_outputs
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.designs.switching import places, switched
from coevolve.environments.hdl.simulate.compiled_harness import HarnessSimulator
from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Covered,
    Evaluate,
    Evaluated,
    KindCount,
    SimulationFailed,
    SimulationLimits,
    SourceFile,
    Stimulus,
    Submission,
    Testbench,
    Unit,
    reward_of,
)
from coevolve.environments.hdl.simulate.reward import MutantTrial, Noticed, RewardConfig
from coevolve.environments.hdl.simulate.runtime import SOURCES
from coevolve.environments.hdl.simulate.simulation import simulation
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from tests.small_designs import GOOD, POOR, counter

pytestmark = [pytest.mark.hdl, pytest.mark.timeout(300)]

HALF = RewardConfig(mutants=0.5)
SHOWN = MutantTrial(counts="shown")
CHECKED = POOR.replace(
    "repeat (4) @(posedge clk);",
    "up <= 1; step <= 4'd5; repeat (28) @(posedge clk); #1 if (count != 140 || !high) $error;",
)
ODD = """module odd (input logic clk, rst_n, input logic [3:0] a, output logic [7:0] y, z);
  localparam int N = 2;
  function automatic int twice(int n); return n * 2; endfunction
  typedef enum logic [1:0] {IDLE, RUN, STOP} state_t;
  state_t state;
  always_ff @(posedge clk or negedge rst_n)
    if (!rst_n) y <= 8'd3;
    else if (!a) y <= y + 8'd1;
    else y <= {2{a & 4'd7}};
  always_ff @(posedge clk or negedge rst_n)
    if (!rst_n) state <= IDLE;
    else case (state) IDLE: if (a[0]) state <= RUN; RUN: state <= STOP; default: state <= IDLE;
    endcase
  assign z[3:0] = a[1 +: 2] + twice(N);
  logic [twice(1)-1:0] unused;
  assign z[7:4] = (state == RUN) ? {3'b0, !a} : 4'd0;
endmodule
"""


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


def found(
    simulator: VerilatorSimulator, submission: Submission, trial: MutantTrial | None
) -> Evaluated:
    request = Evaluate(unit=counter().unit, submission=submission, trial=trial)
    return asyncio.run(simulator.evaluate(request))


def covered(average: int, mutants: Noticed | None) -> Covered:
    kinds = (KindCount(metric="line", covered=average, total=100),)
    coverage = Coverage(points_hash="", hits=b"", kinds=kinds)
    return Covered(coverage=coverage, ended="finish", slots=1, time=1, log="", mutants=mutants)


def test_a_switched_mutant_behaves_as_the_mutant_alone(simulator: VerilatorSimulator):
    tracer, unit, limits = OutputTracer(simulator.tools), counter().unit, SimulationLimits()
    every = places(elaborate(unit), 5)
    both = switched(unit, every)
    with simulation(simulator.tools, both, limits) as under_way:
        under_way.translate(both.files, GOOD, "tb", settings=traced_outputs(unit))
        model = under_way.model()
        under_way.compile(before_main=(SOURCES / "outputs.cpp").read_text())
        together = [traced(under_way, model, 1, number) for number in range(6)]
    units = [unit, *(apply(unit, each.mutant) for each in every)]
    alone = [asyncio.run(tracer.trace(each, GOOD, 1, limits)) for each in units]
    assert together == alone
    assert len({each.folded for each in together}) > 3


def test_a_check_that_notices_bugs_earns_more_than_coverage_without_one(
    simulator: VerilatorSimulator,
):
    noise = found(simulator, Testbench(text=GOOD), HALF.tries).outcome
    checks = found(simulator, Testbench(text=CHECKED), HALF.tries).outcome
    assert isinstance(noise, Covered)
    assert isinstance(checks, Covered)
    assert noise.coverage.overall_average > checks.coverage.overall_average
    assert reward_of(noise) > reward_of(checks)
    assert reward_of(noise, HALF) < reward_of(checks, HALF)
    assert checks.mutants is not None
    assert checks.mutants == Noticed(found=3, counted=9)
    assert noise.mutants is None, "without a check nothing is tried"


def test_only_a_testbench_whose_coverage_earns_something_is_tried(simulator: VerilatorSimulator):
    for text, trial in (
        (CHECKED, MutantTrial(above=0.99)),
        (CHECKED, None),
        (CHECKED.replace("count != 140", "count != 141"), SHOWN),
    ):
        evaluated = found(simulator, Testbench(text=text), trial)
        assert isinstance(evaluated.outcome, Covered)
        assert evaluated.outcome.mutants is None
        assert "mutants" not in {each.stage for each in evaluated.stages}
    assert found(simulator, Testbench(text="module tb;"), SHOWN).reward == 0


async def test_a_program_shows_what_the_testbench_that_it_prints_as_shows(
    simulator: VerilatorSimulator,
):
    harness, scores = HarnessSimulator(simulator), set[int]()
    for text in ("rst 2\nset up=1\nstep 3\n", "rst 2\nrand step\nprob up=5/8\nstep 60\n"):
        request = Evaluate(unit=counter().unit, submission=Stimulus(program=text), trial=SHOWN)
        alone = (await harness.evaluate(request)).outcome
        printed = (await simulator.evaluate(request)).outcome
        assert isinstance(alone, Covered)
        assert isinstance(printed, Covered)
        assert alone.mutants is not None
        assert alone.mutants == printed.mutants
        scores.add(alone.mutants.found)
    await harness.close()
    assert len(scores) == 2


def test_places_that_need_constants_take_no_switch_and_the_others_do(
    simulator: VerilatorSimulator,
):
    unit = Unit(name="odd", files=(SourceFile(name="odd.sv", text=ODD),), top="odd", clock="clk")
    board = simulator.switchboards.of(unit, 64)
    every = places(elaborate(unit), 64)
    text = board.unit.files[1].text
    assert 0 < text.count("coevolve_mutants::active") < len(every)
    assert "{2{" in text
    assert "n * 2" in text
    assert len(board.counted) > 5
    again = open_simulator().switchboards.of(unit, 64)
    assert again == board, "kept by the hash of the design"


def test_the_reward_is_what_the_formula_says():
    tried = Noticed(found=3, counted=4)
    weights = RewardConfig(mutants=0.25)
    assert reward_of(covered(60, tried)) == pytest.approx(1.6)
    earned = 0.6**0.75 * (3.1 / 4.1) ** 0.25
    assert reward_of(covered(60, tried), weights) == pytest.approx(1 + earned)
    untried = 0.6**0.75 * (0.1 / 20.1) ** 0.25
    assert reward_of(covered(60, None), weights) == pytest.approx(1 + untried)
    assert reward_of(covered(60, Noticed(found=0, counted=0)), weights) == pytest.approx(1.6)
    assert reward_of(covered(100, Noticed(found=4, counted=4)), weights) == 2
    planned = msgspec.structs.replace(
        covered(60, tried).coverage,
        kinds=(
            KindCount(metric="line", covered=1, total=2),
            KindCount(metric="plan", covered=1, total=10),
        ),
    )
    outcome = msgspec.structs.replace(covered(60, tried), coverage=planned)
    both = RewardConfig(mutants=0.25, plan=0.4)
    earned = 0.3**0.75 * (3.1 / 4.1) ** 0.25
    assert reward_of(outcome, both) == pytest.approx(1 + 0.6 * earned + 0.4 * 0.1)
    failed = msgspec.structs.replace(outcome, faults=("$error",))
    assert (reward_of(failed, both), reward_of(SimulationFailed(message=""), both)) == (0, 0)


def test_noise_without_a_check_earns_less_than_a_weak_checker_of_little_coverage():
    weak = reward_of(covered(20, Noticed(found=1, counted=20)), HALF)
    noise = [reward_of(covered(share, None), HALF) for share in (40, 99)]
    assert 1 < noise[0] < noise[1] < weak
    assert reward_of(covered(99, Noticed(found=0, counted=20)), HALF) == noise[1]

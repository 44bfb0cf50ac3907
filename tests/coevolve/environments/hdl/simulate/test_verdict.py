"""The verdict on a design: what fails it, what passes it, and what says nothing."""

import re
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.evaluation.grade_testbench import FAILED, MISUSED, RAN
from coevolve.environments.hdl.simulate.compiled_harness import HarnessSimulator
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Outcome,
    SimulationFailed,
    SimulationLimits,
    SourceFile,
    Stimulus,
    Testbench,
    TimedOut,
    Unit,
    reward_of,
    verdict_of,
)
from coevolve.environments.hdl.simulate.summary import faults
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from tests.commands import answered

pytestmark = pytest.mark.hdl

RTL = """module adder (input logic clk, input logic [3:0] a, b, output logic [4:0] sum);
  always_ff @(posedge clk) sum <= a + b;
endmodule
"""
ASSERTED = RTL.replace(
    "endmodule", "  never: assert property (@(posedge clk) sum != 5'd9);\nendmodule"
)
OPENING = """module tb;
  logic clk = 0; logic [3:0] a = 3, b = 4; logic [4:0] sum;
  adder dut (.*);
  always #5 clk = ~clk;
"""


def unit(rtl: str = RTL) -> Unit:
    return Unit(
        name="adder", files=(SourceFile(name="adder.sv", text=rtl),), top="adder", clock="clk"
    )


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


async def run(
    simulator: VerilatorSimulator, body: str, *fail_on: str, rtl: str = RTL, log_bytes: int = 65536
) -> Outcome:
    limits = SimulationLimits(slots=200, cpu_s=1, fail_on=fail_on, log_bytes=log_bytes)
    text = f"{OPENING}{body}\nendmodule\n"
    request = Evaluate(unit=unit(rtl), submission=Testbench(text=text), limits=limits)
    return (await simulator.evaluate(request)).outcome


ENDS = "initial #52 $finish;"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f'initial #20 if (sum != 8) $error("is %0d", sum);\n{ENDS}', "tb.sv:5: .*is 7"),
        (f"initial #20 assert (sum == 8);\n{ENDS}", "1 error, the first: tb.sv:5: "),
        (f"assert property (@(negedge clk) sum == 0);\n{ENDS}", "5 errors, the first: tb.sv:5: "),
        (f"initial #20 if (sum == 7) $stop;\n{ENDS}", r"\$stop of line 5"),
        ("initial #20 assert (sum == 7);", "cut off after 200 time slots"),
        ('initial #20 $fatal(1, "lost");', "lost"),
        ("initial #20 forever a = a + 1;", "took more than"),
        ("initial #20 begin $error; $stop; end", "1 error"),
    ],
)
async def test_a_fault_fails_the_run_and_pays_nothing(
    simulator: VerilatorSimulator, body: str, words: str
):
    outcome = await run(simulator, body)
    assert verdict_of(outcome) == "failed"
    assert reward_of(outcome) == 0
    (fault,) = faults(outcome)
    assert re.search(words, fault), fault
    ran = not isinstance(outcome, SimulationFailed | TimedOut)
    assert isinstance(outcome, Covered) == ran
    if isinstance(outcome, Covered):
        assert outcome.coverage.overall_average > 0


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (f'initial #20 if (sum != 7) $error("is %0d", sum);\n{ENDS}', "passed"),
        (f"initial #20 assert (sum == 7);\n{ENDS}", "passed"),
        (f'initial #20 if (sum != 7) $fatal(1, "no");\n{ENDS}', "passed"),
        (f"initial #20 if (sum != 7) $stop;\n{ENDS}", "passed"),
        (f"initial repeat (4) @(posedge clk) a <= $urandom;\n{ENDS}", "none"),
        ("initial #52 $stop;", "none"),
        (f'initial $display("$error, assert (0);"); // assert (0);\n{ENDS}', "none"),
        (f"`ifdef CHECKED\ninitial #20 assert (sum == 8);\n`endif\n{ENDS}", "none"),
        (f"initial #20 assert (sum == 8) else a = 0;\n{ENDS}", "none"),
    ],
)
async def test_only_a_testbench_with_a_check_passes(
    simulator: VerilatorSimulator, body: str, verdict: str
):
    outcome = await run(simulator, body)
    assert (verdict_of(outcome), faults(outcome)) == (verdict, ())
    assert reward_of(outcome) > 1


SAYS = 'initial #20 if (sum != {expected}) $display("MISMATCH: %0d at %0t", sum, $time);\n' + ENDS


@pytest.mark.parametrize(
    ("body", "fail_on", "verdict"),
    [
        (SAYS.format(expected=8), ("MISMATCH",), "failed"),
        (SAYS.format(expected=8), ("nothing", r"^MISMATCH: \d+ at"), "failed"),
        (SAYS.format(expected=7), (r"^MISMATCH: \d+ at",), "passed"),
        (SAYS.format(expected=7), ("mismatch",), "none"),
        (SAYS.format(expected=8), (), "none"),
    ],
)
async def test_a_pattern_fails_a_run_that_prints_it(
    simulator: VerilatorSimulator, body: str, fail_on: tuple[str, ...], verdict: str
):
    assert verdict_of(await run(simulator, body, *fail_on)) == verdict


async def test_output_that_a_pattern_did_not_see_fails_the_run(simulator: VerilatorSimulator):
    body = f'initial begin repeat (99) $display("a line of words"); $display("FAIL"); end\n{ENDS}'
    cut = await run(simulator, body, "FAIL", log_bytes=1024)
    assert "more than 1024 bytes" in faults(cut)[0]
    assert verdict_of(await run(simulator, body, log_bytes=1024)) == "none"


async def test_an_assertion_of_the_design_fails_a_testbench_and_a_program_alike(
    simulator: VerilatorSimulator,
):
    quick = HarnessSimulator(simulator)
    try:
        for program, verdict in (("set a=4\nset b=5\nstep 4", "failed"), ("step 4", "none")):
            request = Evaluate(unit=unit(ASSERTED), submission=Stimulus(program=program))
            found, printed = await quick.evaluate(request), await simulator.evaluate(request)
            assert verdict_of(found.outcome) == verdict_of(printed.outcome) == verdict
            assert faults(found.outcome) == faults(printed.outcome)
    finally:
        await quick.close()


def test_the_command_says_the_verdict_in_text_json_and_exit_code(tmp_path: Path):
    (tmp_path / "adder.sv").write_text(RTL)
    (tmp_path / "tb.sv").write_text(f"{OPENING}{SAYS.format(expected=8)}\nendmodule\n")
    words = (
        *("hdl", "simulate", f"--rtl={tmp_path / 'adder.sv'}", "--dut=adder"),
        str(tmp_path / "tb.sv"),
    )
    unsaid = answered(*words)
    assert unsaid.returncode == RAN
    assert "verdict: none, since the testbench has no check" in unsaid.stdout
    failed = answered(*words, "--fail-on=nothing", "--fail-on=MISMATCH", "--json")
    assert failed.returncode == FAILED
    found = msgspec.json.decode(failed.stdout)
    assert (found["verdict"], found["status"], found["reward"]) == ("failed", "success", 0)
    assert found["faults"] == ["the output matches 'MISMATCH': MISMATCH: 7 at 20000"]
    wrong = answered(*words, "--fail-on=(")
    assert wrong.returncode == MISUSED
    assert "--fail-on: " in wrong.stderr

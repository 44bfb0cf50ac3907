"""Mutants that testbenches notice, show or miss."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.designs.design import Mutant
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.mutants import apply
from coevolve.environments.hdl.evaluation.grade_testbench import FAILED, RAN, UNNOTICED
from coevolve.environments.hdl.evaluation.mutation import mutation
from coevolve.environments.hdl.simulate.messages import Evaluate, Testbench
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from protocols.errors import ConfigError
from tests.commands import ROOT, answered
from tests.small_designs import GOOD, POOR, counter

pytestmark = [pytest.mark.hdl, pytest.mark.timeout(300)]

FIFO = """module tb;
  logic clk = 0, rst_n = 0, flush = 0, push = 0, pop = 0, level_we = 0, clear_flags = 0;
  logic [15:0] wdata = 0, rdata; logic [3:0] level_high = 6, level_low = 1, count, peak;
  logic full, empty, almost_full, almost_empty, overflow, underflow, stalled; logic [5:0] lost;
  logic [15:0] model[$];
  sync_fifo dut (.*);
  always #5 clk = ~clk;
  always @(negedge clk) begin
    push = $urandom_range(9) < (dut_phase ? 7 : 3); pop = $urandom_range(9) < (dut_phase ? 3 : 7);
    wdata = $urandom;
  end
  bit dut_phase = 1;
  always #900 dut_phase = ~dut_phase;
  always @(posedge clk) if (rst_n) begin
    assert (count == model.size());
    assert (full == (model.size() == 8) && empty == (model.size() == 0));
    if (model.size() > 0 && rdata != model[0]) $error("rdata is %h, not %h", rdata, model[0]);
    if (push && !full && !stalled && pop && !empty) begin
      void'(model.pop_front()); model.push_back(wdata);
    end
    else if (push && !full && !stalled) model.push_back(wdata);
    else if (pop && !empty) void'(model.pop_front());
  end
  initial begin #22 rst_n = 1; #6000 $finish; end
endmodule
"""
BCD = """module tb;
  logic clk = 0, rst_n = 0, go = 0, to_binary = 0, blanking = 0, cancel = 0, idle, done;
  logic [13:0] binary_in = 0, binary_out; logic [15:0] digits_in = 0, digits_out;
  logic [3:1] blank; logic too_big, not_decimal, steady; logic [3:0] wrong_digit, good_in_row;
  bcd_converter dut (.*);
  always #5 clk = ~clk;
  task automatic convert(int number);
    digits_in = {4'(number / 1000), 4'(number / 100 % 10), 4'(number / 10 % 10), 4'(number % 10)};
    binary_in = 14'(number);
    @(negedge clk) go = 1;
    @(negedge clk) go = 0;
    while (!done) @(negedge clk);
    assert (too_big == (!to_binary && number > 9999));
    if (to_binary && binary_out != 14'(number)) $error("binary %0d, not %0d", binary_out, number);
    if (!to_binary && !too_big && digits_out != digits_in) $error("digits %h", digits_out);
  endtask
  initial begin
    #22 rst_n = 1;
    convert(0); convert(9999); convert(10000); convert(5678); convert(1234);
    to_binary = 1;
    convert(9999); convert(808); convert(4321);
    $finish;
  end
endmodule
"""
ALU = """module tb;
  logic clk = 0, rst_n = 0, valid = 0; logic [4:0] op = 0; logic [15:0] a = 0, b = 0, y, signature;
  logic y_valid, carry, zero, negative, overflow, illegal, busy;
  alu16 dut (.*);
  always #5 clk = ~clk;
  task automatic check(input [4:0] code, input [15:0] one, two, expected);
    @(negedge clk) {op, a, b, valid} = {code, one, two, 1'b1};
    @(negedge clk) valid = 0;
    if (y !== expected || zero !== (expected == 0) || !y_valid)
      $fatal(1, "op %0d of %h and %h is %h, not %h", code, one, two, y, expected);
  endtask
  initial begin
    #22 rst_n = 1;
    repeat (20) begin
      automatic bit [15:0] p = $urandom, q = $urandom;
      check(4, p, q, p & q); check(5, p, q, p | q); check(6, p, q, p ^ q); check(7, p, q, ~p);
      check(0, p, q, p + q); check(2, p, q, p - q); check(6, p, p, 0);
      check(12, p, q, $signed(p) < $signed(q) ? p : q); check(13, p, q, p > q ? p : q);
    end
    @(negedge clk) {op, valid} = {5'd20, 1'b1};
    @(negedge clk) if (!illegal || y_valid) $fatal(1, "op 20 was taken");
    $finish;
  end
endmodule
"""
BUGS = {
    "sync_fifo": (
        FIFO,
        (
            ("count == 4'd8", "count == 4'd7"),
            ("if (do_push && !do_pop) begin", "if (do_push) begin"),
            ("rptr <= rptr + 3'd1", "rptr <= rptr + 3'd2"),
            ("mem[wptr] <= wdata", "mem[wptr] <= {wdata[15:1], 1'b0}"),
            ("pop && !empty;", "pop;"),
        ),
    ),
    "bcd_converter": (
        BCD,
        (
            ("if (shifter[14+4*i+:4] > 4'd4)", "if (shifter[14+4*i+:4] > 4'd5)"),
            ("too_big     <= !direction && shifter[13:0] > 14'd9999", "too_big <= direction"),
            ("halved[14+4*i+:4] - 4'd3", "halved[14+4*i+:4] - 4'd2"),
            ("digits_out <= {corrected_up[14:0], shifter[13]}", "digits_out <= corrected_up"),
            ("state <= S_IDLE;\n        end\n      endcase", "state <= S_DONE;\n end\n endcase"),
        ),
    ),
    "alu16": (
        ALU,
        (
            ("next_y = a & b", "next_y = a | b"),
            ("zero     <= next_y == 16'd0", "zero <= next_y == 16'd1"),
            ("{1'b0, a} - {1'b0, b} -", "{1'b0, b} - {1'b0, a} -"),
            ("(a > b) ? a : b", "(a < b) ? a : b"),
            ("y_valid <= valid && !busy && !unknown", "y_valid <= valid && !busy"),
        ),
    ),
}


def bug(name: str, file: str, find: str, replace: str) -> Mutant:
    return Mutant(name=name, file=file, find=find, replace=replace, bug=f"{find} is {replace}")


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


@pytest.mark.parametrize("name", BUGS)
def test_every_bug_of_three_designs_is_noticed_by_a_testbench_that_checks(
    simulator: VerilatorSimulator, name: str, tmp_path: Path
):
    testbench, changes = BUGS[name]
    unit = load(Path(ROOT, "designs", name)).unit
    mutants = [bug(f"m{n}", f"{name}.sv", *each) for n, each in enumerate(changes)]
    request = Evaluate(unit=unit, submission=Testbench(text=testbench))
    found = asyncio.run(mutation(simulator, request, testbench, mutants))
    assert [each.fate for each in found.judged] == ["noticed"] * 5, found
    assert (found.counted, found.score) == (5, 1.0)
    assert all(each.reason for each in found.judged)
    (tmp_path / f"{name}.sv").write_text(apply(unit, mutants[0]).files[0].text)
    (tmp_path / "tb.sv").write_text(testbench)
    broken = answered(
        *("hdl", "simulate", f"--rtl={tmp_path / name}.sv", f"--dut={name}"),
        str(tmp_path / "tb.sv"),
    )
    assert broken.returncode == FAILED, broken
    assert "verdict: failed" in broken.stdout


async def test_noise_shows_bugs_and_notices_none(simulator: VerilatorSimulator):
    unit = counter().unit
    mutants = (
        bug("early", "counter.sv", "count > 8'd127", "count > 8'd124"),
        bug("same", "counter.sv", "count > 8'd127", "count >= 8'd128"),
        bug("rare", "counter.sv", "count <= 8'd200", "count <= 8'd201"),
        bug("broken", "counter.sv", "count > 8'd127", "count > nothing"),
    )
    request = Evaluate(unit=unit, submission=Testbench(text=GOOD))
    found = await mutation(simulator, request, POOR, mutants)
    assert [each.fate for each in found.judged] == ["missed", "equivalent", "missed", "broken"]
    assert (found.counted, found.score) == (2, 0.0)
    found = await mutation(simulator, request, GOOD, mutants)
    assert [each.fate for each in found.judged] == ["shown", "equivalent", "shown", "broken"]
    assert found.score == 0.0
    checked = GOOD.replace("$finish;", "assert (count == 200); $finish;")
    found = await mutation(simulator, request, checked, mutants[:3])
    assert [each.fate for each in found.judged] == ["shown", "equivalent", "noticed"]
    assert found.score == 0.5
    wrong = GOOD.replace("$finish;", "assert (count == 201); $finish;")
    with pytest.raises(ConfigError, match="passes on the design itself"):
        await mutation(simulator, request, wrong, mutants)


def test_the_command_lists_each_mutant_and_exits_with_a_code_for_unnoticed_ones(tmp_path: Path):
    rtl = (
        "module inv (input logic [3:0] a, output logic [3:0] y, z);\n"
        "  assign y = ~a;\n  assign z = a & 4'd6;\nendmodule\n"
    )
    body = "inv dut (.*);\n initial for (int n = 0; n < 17; n++) begin a = n[3:0]; #1 if (n == 16)"
    body = f"module tb; logic [3:0] a, y, z; {body} $finish; CHECK end\nendmodule\n"
    (tmp_path / "inv.sv").write_text(rtl)
    words = ("hdl", "simulate", f"--rtl={tmp_path / 'inv.sv'}", "--dut=inv", "--mutants=auto")
    (tmp_path / "half.sv").write_text(body.replace("CHECK", "assert (y == ~a);"))
    half = answered(*words, str(tmp_path / "half.sv"))
    assert half.returncode == UNNOTICED
    assert "mutants      1 of 3       33.3% noticed, 2 changed outputs unnoticed" in half.stdout
    assert "shown   inv.sv:3:16: `&` becomes `|`\n" in half.stdout
    assert "noticed inv.sv:2:14: `~a` is not negated: " in half.stdout
    (tmp_path / "all.sv").write_text(body.replace("CHECK", "assert ({y, z} == {~a, a & 4'd6});"))
    whole = answered(*words, "--json", str(tmp_path / "all.sv"))
    assert whole.returncode == RAN
    found = msgspec.json.decode(whole.stdout)["mutation"]
    assert (found["score"], found["noticed"], found["counted"]) == (1.0, 3, 3)

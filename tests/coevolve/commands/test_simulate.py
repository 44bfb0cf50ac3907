import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from coevolve.environments.hdl.evaluation.grade_testbench import BLAMED, FAILED, MISUSED, RAN
from tests.commands import Answer, answered

RTL = """module counter (input logic clk, rst_n, output logic [1:0] n);
  always_ff @(posedge clk) n <= rst_n ? n + 1 : 0;
endmodule
"""
BENCH = "module tb;\n  counter dut ();\nendmodule\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "counter.sv").write_text(RTL)
    (tmp_path / "bench.sv").write_text(BENCH)
    (tmp_path / "program.txt").write_text("rst 2\nstep 6\n")
    return tmp_path


def counter(files: Path, *words: str) -> Sequence[str]:
    return (f"--rtl={files / 'counter.sv'}", "--dut=counter", *words)


def graded(words: Sequence[str]) -> Answer:
    return answered("hdl", "simulate", *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "needs DESIGN and TB.sv here, found 0 paths"),
        (("--rtl=x.sv", "x"), "--rtl and --dut go together"),
        (("designs/x", "--patch=x"), "--patch and --base go together"),
        (("designs/x", "--stimulus=x", "--patch=x", "--base=x"), "two submissions"),
        (("designs/x", "x", "--clock=clk"), "are for --rtl"),
        (("--rtl=nowhere/x.sv", "--dut=x", "/dev/null"), "in nowhere: x.sv is missing"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(words: Sequence[str], told: str):
    answer = graded(words)
    assert answer.returncode == MISUSED
    assert told in answer.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--reset=rst_n", "x"), "--reset: needs PORT=low or PORT=high, found 'rst_n'"),
        (("--clock=clok", "x"), "clock: needs an input of one bit of counter, found 'clok'"),
        (("--seed=-1", "/dev/null"), "--seed"),
        (("/nowhere.sv",), "/nowhere.sv: cannot be read"),
    ],
)
def test_what_does_not_fit_the_rtl_is_refused(words: Sequence[str], told: str, files: Path):
    answer = graded(counter(files, *words))
    assert answer.returncode == MISUSED
    assert told in answer.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/zero")
def test_files_without_end_are_refused(files: Path):
    for words in (
        counter(files, "/dev/zero"),
        ("--rtl=/dev/zero", "--dut=x", str(files / "bench.sv")),
    ):
        answer = graded(words)
        assert answer.returncode == MISUSED
        assert re.search(r"bytes, (found|has) more", answer.stderr)


@pytest.mark.hdl
def test_a_stimulus_program_drives_any_rtl(files: Path):
    program = f"--stimulus={files / 'program.txt'}"
    answer = graded(counter(files, program, "--clock=clk", "--reset=rst_n=low"))
    assert answer.returncode == RAN
    assert "Every point is covered" in answer.stdout


COMMENT = "// 时钟上升沿，写使能\n".encode("gbk")  # noqa: RUF001


@pytest.mark.hdl
@pytest.mark.parametrize(
    ("rtl", "code", "told"),
    [
        (COMMENT + RTL.encode() + COMMENT, RAN, "counter: success"),
        (RTL.encode() + b"/* \xe9t\xe9 */\n", RAN, "counter: success"),
        (b"\xef\xbb\xbf" + RTL.encode(), RAN, "counter: success"),
        (RTL.encode("utf-16"), MISUSED, "found UTF-16 or no text; save it as UTF-8"),
        (RTL.encode() + b"\xe9", MISUSED, "line 4, column 1: outside of comments and strings"),
    ],
)
def test_rtl_is_graded_whatever_the_encoding_of_its_comments(
    rtl: bytes, code: int, told: str, files: Path
):
    (files / "counter.sv").write_bytes(rtl)
    answer = graded(counter(files, str(files / "bench.sv")))
    assert answer.returncode == code, answer.stderr
    assert told in answer.stdout + answer.stderr


@pytest.mark.hdl
@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        ("#(.W(2))", RAN, "counter: success"),
        ("#(.W(1 + 1))", RAN, "counter: success"),
        ("#(.W(3))", BLAMED, "parameter W of counter is 3, and the design's is 2"),
        ("#(.W(`ifdef VERILATOR 1 `else 2 `endif))", BLAMED, "parameter W of counter is 1"),
    ],
)
def test_parameters_that_keep_the_design_s_values_are_graded(
    given: str, code: int, told: str, files: Path
):
    wide = RTL.replace("counter (", "counter #(parameter W = 2) (").replace("[1:0]", "[W-1:0]")
    (files / "counter.sv").write_text(wide)
    (files / "bench.sv").write_text(BENCH.replace("counter dut", f"counter {given} dut"))
    answer = graded(counter(files, str(files / "bench.sv")))
    assert answer.returncode == code, answer.stderr
    assert told in answer.stdout


TRUSTED = """`include "size.vh"
module tb; reg clk = 0; wire [`SIZE-1:0] n, m; wire [3:0] k; reg [7:0] table_ [0:1];
  counter #(.W(4)) other (.clk(clk), .rst_n(1'b0), .n(k));
  counter #(.W(`SIZE)) dut (.clk(clk), .rst_n(1'b1), .n(n)), twin (.clk(clk), .rst_n(1'b0), .n(m));
  initial begin $readmemh("../tables/x.hex", table_);
    force dut.n = table_[1]; #1 release dut.n; repeat (50000) #1 clk = !clk; $finish; end
endmodule
"""


@pytest.mark.hdl
def test_a_trusted_testbench_is_graded_with_its_own_parameters_files_and_data(files: Path):
    wide = RTL.replace("counter (", "counter #(parameter W = 2) (").replace("[1:0]", "[W-1:0]")
    (files / "counter.sv").write_text(wide)
    (files / "tables").mkdir()
    (files / "tables" / "x.hex").write_text("01 07\n")
    (files / "tb").mkdir()
    (files / "tb" / "size.vh").write_text("`define SIZE 3\n")
    (files / "tb" / "tb.v").write_text(TRUSTED)
    (files / "model.v").write_text("module model; endmodule\n")
    benches = (str(files / "model.v"), str(files / "tb" / "tb.v"))
    words = counter(files, "--gate=trusted", "--instance=tb.dut", *benches)
    answer = graded(words)
    assert answer.returncode == RAN, answer.stdout + answer.stderr
    assert "counter: success" in answer.stdout
    assert "toggle       8 of 10" in answer.stdout
    assert "counted: tb.dut; not counted: tb.other, tb.twin, which --instance" in answer.stdout
    strict = graded([word for word in words if not word.startswith("--gate")])
    assert strict.returncode == BLAMED
    assert "tb.v:6:5: error: 'force' may not be used" in strict.stdout
    assert "--gate trusted" in strict.stdout


PRINTING = """module tb; reg clk = 0; wire [1:0] n; counter dut (.clk(clk), .rst_n(1'b1), .n(n));
  initial begin repeat (6) #1 clk = !clk; #1 if (n != 3) $display("*** ERROR: got %0d", n);
    $display("done"); $finish; end
endmodule
"""


@pytest.mark.hdl
@pytest.mark.parametrize(
    ("step", "code", "told"),
    [
        (1, RAN, "verdict: passed"),
        (2, FAILED, "verdict: failed\n  the output reports a failure: *** ERROR: got 2"),
    ],
)
def test_a_bug_that_a_trusted_testbench_only_prints_fails_it(
    step: int, code: int, told: str, files: Path
):
    (files / "counter.sv").write_text(RTL.replace("n + 1", f"n + {step}"))
    (files / "bench.sv").write_text(PRINTING)
    answer = graded(counter(files, "--gate=trusted", str(files / "bench.sv")))
    assert answer.returncode == code, answer.stdout + answer.stderr
    assert told in answer.stdout


@pytest.mark.hdl
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("bind counter part extra (.a(clk));", "the design's own"),
        ("defparam dut.p.W = 1;", "exactly one instance of counter"),
    ],
)
def test_a_trusted_testbench_that_changes_the_design_is_not_graded(
    change: str, told: str, files: Path
):
    part = "module part #(parameter W = 2) (input logic a); logic [W-1:0] x; assign x = {W{a}}; "
    whole = RTL.replace("endmodule", "part p (.a(clk)); endmodule")
    (files / "counter.sv").write_text(f"{part} endmodule\n{whole}")
    (files / "bench.sv").write_text(BENCH.replace("endmodule", f"{change} endmodule"))
    answer = graded(counter(files, "--gate=trusted", str(files / "bench.sv")))
    assert answer.returncode == BLAMED
    assert told in answer.stdout

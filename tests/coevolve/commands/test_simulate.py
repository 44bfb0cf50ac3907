import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from coevolve.environments.hdl.evaluation.grade_testbench import MISUSED, RAN
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
        assert "has more" in answer.stderr


@pytest.mark.hdl
def test_a_stimulus_program_drives_any_rtl(files: Path):
    program = f"--stimulus={files / 'program.txt'}"
    answer = graded(counter(files, program, "--clock=clk", "--reset=rst_n=low"))
    assert answer.returncode == RAN
    assert "Every point is covered" in answer.stdout

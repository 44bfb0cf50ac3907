import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from coevolve.commands.simulate import MISUSED, RAN, main

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


def status(words: Sequence[str]) -> int | str | None:
    try:
        return main(words)
    except SystemExit as stopped:
        return stopped.code


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
def test_a_command_that_cannot_be_meant_is_refused(
    words: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]
):
    assert status(words) == MISUSED
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--reset=rst_n", "x"), "--reset: needs PORT=low or PORT=high, found 'rst_n'"),
        (("--clock=clok", "x"), "clock: needs an input of one bit of counter, found 'clok'"),
        (("--seed=-1", "/dev/null"), "--seed"),
        (("/nowhere.sv",), "/nowhere.sv: cannot be read"),
    ],
)
def test_what_does_not_fit_the_rtl_is_refused(
    words: Sequence[str], told: str, files: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(counter(files, *words)) == MISUSED
    assert told in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/zero")
def test_files_without_end_are_refused(files: Path, capsys: pytest.CaptureFixture[str]):
    assert main(counter(files, "/dev/zero")) == MISUSED
    assert main(("--rtl=/dev/zero", "--dut=x", str(files / "bench.sv"))) == MISUSED
    assert capsys.readouterr().err.count("has more") == 2


@pytest.mark.hdl
def test_a_stimulus_program_drives_any_rtl(files: Path, capsys: pytest.CaptureFixture[str]):
    program = f"--stimulus={files / 'program.txt'}"
    assert main(counter(files, program, "--clock=clk", "--reset=rst_n=low")) == RAN
    assert "Every point is covered" in capsys.readouterr().out

"""A design that races on an edge takes the branch that Verilator takes by default."""

import asyncio
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = pytest.mark.hdl

HEAD = (
    "module d(input logic clk, input logic x, output logic a, b); initial begin a = 0; b = 0; end"
)
RACES = {
    "assigned clock": "wire c = clk; always @(posedge clk) a <= x; always @(posedge c) b <= a;",
    "reader first": "always @(posedge clk) b = a; always @(posedge clk) a = x;",
    "writer first": "always @(posedge clk) a = x; always @(posedge clk) b = a;",
    "divided clock": "logic c = 0; always @(posedge clk) c = ~c; always @(posedge clk) a <= x; "
    "always @(posedge c) b <= a;",
    "inverted twice": "wire n = ~clk; wire c = ~n; always @(posedge clk) a <= x; "
    "always @(posedge c) b <= a;",
}
BENCH = """module tb; logic clk = 0, x = 0; wire a, b; d dut(.*); always #5 clk = ~clk;
always @(posedge clk) x = ~x; always @(negedge clk) $write("%b%b ", a, b); initial #62 $finish;
endmodule
"""


@cache
def simulator() -> VerilatorSimulator:
    return open_simulator()


def graded(rtl: str) -> str:
    unit = Unit(name="d", files=(SourceFile(name="d.sv", text=rtl),), top="d")
    request = Evaluate(unit=unit, submission=Testbench(text=BENCH))
    outcome = asyncio.run(simulator().evaluate(request)).outcome
    assert isinstance(outcome, Covered), outcome
    return outcome.log.partition("-")[0]


def usual(rtl: str, folder: Path) -> str:
    """Return what the same testbench prints with Verilator's own settings, without coverage."""
    (folder / "d.sv").write_text(rtl)
    (folder / "tb.sv").write_text(BENCH)
    tools = simulator().tools
    runtime, clang = tools.runtime, str(tools.toolchain.clang)

    def run(*words: str) -> str:
        environment = {**os.environ, "VERILATOR_ROOT": str(runtime.root)}
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    options = (
        "--cc",
        "--exe",
        "--main",
        "--timing",
        "--prefix",
        "Vtb",
        "--Mdir",
        ".",
        "-Wno-fatal",
    )
    run(str(runtime.verilator), *options, "--quiet", "--top-module", "tb", "d.sv", "tb.sv")
    sources = sorted(path.name for path in folder.glob("Vtb*.cpp"))
    (folder / "all.cc").write_text("".join(f'#include "{name}"\n' for name in sources))
    run(clang, *runtime.flags("-O0"), "-I.", "-c", "all.cc", "-o", "all.o")
    library = (str(runtime.library), f"-Wl,-rpath,{runtime.folder}", "-lpthread")
    run(clang, "all.o", *library, "-o", "usual")
    return run(str(folder / "usual")).partition("-")[0]


@pytest.mark.parametrize("name", RACES)
def test_a_race_ends_as_in_verilator_without_our_options(name: str, tmp_path: Path):
    rtl = f"{HEAD} {RACES[name]} endmodule\n"
    assert graded(rtl) == usual(rtl, tmp_path)

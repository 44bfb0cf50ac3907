"""Every kind of attack in ``hostile/``: the gate's refusals, and the sandbox without the gate.

In the files ``<<N times: text>>`` stands for N copies of the text, and HOSTILE_MARK for a word that
is different in every test run.
"""

import asyncio
import contextlib
import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Evaluated,
    Rejected,
    SimulationLimits,
    SourceFile,
    Testbench,
    Unit,
    Violation,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = pytest.mark.timeout(300)

FILES = Path(__file__).parent / "hostile"
MARK = f"hostile_{secrets.token_hex(6)}"
SECRET = f"secret_{secrets.token_hex(6)}"

VAULT = """module vault #(parameter SECRET = 8'hA5) (
  input  logic clk, rst_n, go,
  input  logic [7:0] code,
  output logic opened,
  output logic [3:0] tries
);
  logic [1:0] state;
  always_ff @(posedge clk or negedge rst_n)
    if (!rst_n) begin
      state <= 0;
      tries <= 0;
    end else if (go && state != 2) begin
      tries <= tries + 1;
      state <= code == SECRET ? state + 1 : 0;
    end
  assign opened = state == 2;
endmodule
"""
UNIT = Unit(
    name="vault",
    files=(SourceFile(name="vault.sv", text=VAULT),),
    top="vault",
    keeps_secret=True,
)
POOR = """module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.*);
  always #5 clk = ~clk;
  initial begin
    #12 rst_n = 1;
    go = 1;
    repeat (20) @(negedge clk) code = code + 37;
    $finish;
  end
endmodule
"""
LIMITS = SimulationLimits(cpu_s=1.0, memory_mb=300, slots=2000, compile_cpu_s=3.0, wall_s=20.0)

Expected = Literal["refused", "harmless"]
EXPECTED: dict[Expected, str] = {
    "refused": """
        alias array_path assign_state bind branch_path c_statement carriage_return config_swap
        configuration coverage_comment coverage_directive defparam dpi_by_macro dpi_context
        dpi_export dpi_import dump_made_path dump_path escaped_path force_state forge_coverage
        include_by_macro include_endless include_file keywords line_directive lint_comment
        macro_bomb macro_bomb_arguments macro_circle macro_path nested_path network nul
        pragma primitive process_bomb read_environment read_lines read_secret readmem redefine
        root_path split_comment split_line survivor system system_argument system_hidden
        system_pasted too_large translate_comment upward_path write_absolute write_descriptors
        write_memory write_upwards
    """,
    "harmless": """
        crlf deep_blocks deep_brackets endless_loop fatal finish_race forge_log format_tricks
        generate_bomb homoglyph log_flood long_chain long_line memory_array memory_queue
        memory_string mentions module_circle no_finish no_instance plusargs recursion stop
        thread_bomb two_instances zero_delay parameter
    """,
}
"""The gate refuses them, or accepts them as harmless: they fail, or earn what they cover."""

PAST_THE_PORTS = """
    alias array_path assign_state bind branch_path config_swap defparam escaped_path force_state
    macro_path nested_path primitive read_secret root_path split_comment split_line
    upward_path
"""
"""Attacks on the reward alone, which only the gate can stop."""

IN_THIS_PROCESS = "include_endless macro_bomb macro_bomb_arguments"
"""Attacks on the readers of the text, such as pyslang, which run before the sandbox. Only the gate
can stop them; it opens no file and limits the expansion of macros."""

GATE_ALONE = PAST_THE_PORTS.split() + IN_THIS_PROCESS.split()

HONEST = frozenset({"crlf", "mentions", "long_line"})
"""Honest testbenches, which must be graded."""


def hostile(name: str) -> str:
    text = (FILES / f"{name}.sv").read_bytes().decode()
    text = re.sub(
        r"<<(\d+) times: (.*?)>>", lambda found: int(found[1]) * found[2], text, flags=re.DOTALL
    )
    return text.replace("HOSTILE_MARK", MARK)


def names(expected: Expected) -> list[str]:
    return EXPECTED[expected].split()


def request(text: str) -> Evaluate:
    return Evaluate(unit=UNIT, submission=Testbench(text=text), limits=LIMITS)


def open_gate(
    text: str, unit: Unit, *, instance: str = "", reads: Sequence[tuple[int, int]] = ()
) -> tuple[Violation, ...]:
    return ()


def processes_of_mark() -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [path.parent.name] if MARK.encode() in path.read_bytes() else []
    return found


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


@pytest.fixture(scope="module")
def poor(simulator: VerilatorSimulator) -> Evaluated:
    return asyncio.run(simulator.evaluate(request(POOR)))


@pytest.fixture(scope="module")
def ungated(simulator: VerilatorSimulator) -> Iterator[dict[str, Evaluated]]:
    """Yield the result of each attack with the sandbox but without the gate."""
    bare = VerilatorSimulator(simulator.toolchain, simulator.sandbox, gate=open_gate)
    attacks = sorted({*names("refused"), *names("harmless")} - {*GATE_ALONE})
    turn = asyncio.Semaphore(2)

    async def one(name: str) -> Evaluated:
        async with turn:
            return await bare.evaluate(request(hostile(name)))

    async def every() -> list[Evaluated]:
        return list(await asyncio.gather(*map(one, attacks)))

    os.environ["HOSTILE_SECRET"] = SECRET
    try:
        yield dict(zip(attacks, asyncio.run(every()), strict=True))
    finally:
        del os.environ["HOSTILE_SECRET"]


def test_the_table_has_every_file() -> None:
    assert sorted(names("refused") + names("harmless")) == sorted(
        path.stem for path in FILES.glob("*.sv")
    )
    assert len(list(FILES.glob("*.sv"))) >= 30


@pytest.mark.parametrize("name", names("refused"))
def test_the_gate_refuses(name: str) -> None:
    found = violations(hostile(name), UNIT)
    assert found
    assert all(each.message and each.line >= 1 and each.column >= 1 for each in found)


@pytest.mark.parametrize("name", names("harmless"))
def test_the_gate_accepts_harmless_attacks(name: str) -> None:
    assert violations(hostile(name), UNIT) == ()


@pytest.mark.hdl
def test_attacks_that_only_the_gate_stops_earn_nothing(simulator: VerilatorSimulator) -> None:
    for name in GATE_ALONE:
        evaluated = asyncio.run(simulator.evaluate(request(hostile(name))))
        assert isinstance(evaluated.outcome, Rejected), name
        assert evaluated.reward == 0.0


@pytest.mark.hdl
def test_attacks_without_the_gate_stay_in_the_sandbox_earn_little_and_change_nothing(
    simulator: VerilatorSimulator, ungated: dict[str, Evaluated], poor: Evaluated
) -> None:
    # One test, because workers that share these checks would each compile all attacks.
    check_nothing_leaks(ungated)
    check_nothing_is_written_outside_of_the_work_folder()
    assert processes_of_mark() == []
    assert isinstance(poor.outcome, Covered)
    assert {name: each.reward for name, each in ungated.items() if each.reward > poor.reward} == {}
    for name in HONEST:
        assert isinstance(ungated[name].outcome, Covered), name
    again = asyncio.run(simulator.evaluate(request(POOR)))
    assert (again.key, again.outcome) == (poor.key, poor.outcome)


def check_nothing_leaks(ungated: dict[str, Evaluated]) -> None:
    folders = (str(Path(__file__).parents[4]), sys.prefix, str(Path.home() / ".cache"))
    for name, evaluated in ungated.items():
        told = msgspec.json.encode(evaluated.outcome).decode()
        assert "root:x:0:0" not in told, name
        assert SECRET not in told, name
        mine = hostile(name)
        for folder in folders:
            assert folder not in told or folder in mine, (name, folder)


def check_nothing_is_written_outside_of_the_work_folder() -> None:
    around = ("/tmp", "/var/tmp", "/dev/shm", "/", ".", "..")
    assert not [folder for folder in around if (Path(folder) / MARK).exists()]
    assert not list(Path("/dev/shm").glob(f"*/{MARK}"))

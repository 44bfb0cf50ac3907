"""Arcs that count, compared with the waveform of the state register.

A wrapper around each design disturbs its reset, and one of the design's own testbenches drives the
wrapper. A recorder in the RTL reads clock, reset and state a picosecond after each change, when
everything has settled. An arc is taken if the clock rose, the reset is not active, and the states
before and after are those of the arc.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsInt, cast

import msgspec
import pytest
from pyslang.ast import InstanceBodySymbol, InstanceSymbol

from coevolve.environments.hdl.coverage.instrument import CLOCKLESS
from coevolve.environments.hdl.coverage.state_machines import Machine, machines
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.folders import load_all
from coevolve.environments.hdl.designs.rtl import elaborate, ports
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Reset,
    SimulationFailed,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = [pytest.mark.hdl, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[5]
AT_ONCE = 2

DISTURBANCE = """
  always @(clk) begin
    automatic int chance = $urandom % 20;
    active = clk && chance == 0;
    clock = clk;
    if (active) begin #100ps active = 0; end
    if (chance == 1) begin #100ps active = 1; #100ps active = 0; end
  end
"""
"""Resets that start at a clock edge, and pulses between two edges."""


SEVERAL = """
module m (input logic clk, rst_n, set, clear, output logic [1:0] q);
  typedef enum logic [1:0] {IDLE, RUN, DONE} state_t;
  state_t state;
  wire off = !rst_n || clear;
  always_ff @(posedge clk or posedge off or posedge set)
    if (off) state <= IDLE;
    else if (set) state <= DONE;
    else case (state)
      IDLE: state <= RUN;
      RUN: state <= q[0] ? IDLE : DONE;
      DONE: state <= IDLE;
    endcase
  assign q = state;
endmodule
"""
PULSING = """
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, set = 0, clear = 0;
  logic [1:0] q;
  m dut (.*);
  always #5 clk = ~clk;
  initial begin
    #12 rst_n = 1;
    @(posedge clk); PULSE
    repeat (2) @(posedge clk);
    $finish;
  end
endmodule
"""


@dataclass(frozen=True, kw_only=True)
class Arc:
    """An arc of one instance's register."""

    instance: str
    register: str
    source: int
    target: int


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


@pytest.mark.parametrize(
    ("each", "more_than"), [(6, 10), pytest.param(1, 60, marks=pytest.mark.exhaustive)]
)
def test_an_arc_counts_if_a_clock_edge_took_it(
    simulator: VerilatorSimulator, each: int, more_than: int
) -> None:
    turn = asyncio.Semaphore(AT_ONCE)

    async def compared(design: Design) -> int:
        arcs = arcs_of(design.unit)
        unit = walled(design.unit)
        submission = Testbench(text=design.testbenches["mid"])
        async with turn:
            done = await simulator.evaluate(Evaluate(unit=unit, submission=submission))
            points = await simulator.points(unit)
        assert isinstance(done.outcome, Covered), (design.design_id, done.outcome)
        hit = {each for n, each in enumerate(points) if done.outcome.coverage.hit(n)}
        counted = {(each.instance, each.name) for each in hit if each.metric == "fsm"}
        took = {arcs[arc] for arc in taken(done.outcome.log) if arc in arcs}
        assert counted & set(arcs.values()) == took, design.design_id
        return len(took)

    async def every() -> int:
        designs = load_all(ROOT / "designs")
        machined = [design for design in designs if arcs_of(design.unit)]
        return sum(await asyncio.gather(*map(compared, machined[::each])))

    assert asyncio.run(every()) > more_than


@pytest.mark.parametrize(
    ("pulse", "taken"),
    [
        ("", {"IDLE->RUN", "RUN->IDLE"}),
        ("#1 set = 1; #1 set = 0;", {"IDLE->RUN", "DONE->IDLE"}),
        ("#1 clear = 1; #1 clear = 0;", {"IDLE->RUN"}),
        ("#1 rst_n = 0; #1 rst_n = 1;", {"IDLE->RUN"}),
        ("#1 set = 1; @(negedge clk); #1 set = 0;", {"IDLE->RUN", "DONE->IDLE"}),
        ("@(negedge clk) clear = 1; @(negedge clk) clear = 0;", {"IDLE->RUN"}),
    ],
)
def test_a_set_or_reset_counts_no_arc(
    simulator: VerilatorSimulator, pulse: str, taken: set[str]
) -> None:
    unit = Unit(name="m", files=(SourceFile(name="m.sv", text=SEVERAL),), top="m")
    submission = Testbench(text=PULSING.replace("PULSE", pulse))
    done = asyncio.run(simulator.evaluate(Evaluate(unit=unit, submission=submission)))
    assert isinstance(done.outcome, Covered), done.outcome
    points = asyncio.run(simulator.points(unit))
    hit = {each.name for n, each in enumerate(points) if done.outcome.coverage.hit(n)}
    assert {name for name in hit if re.fullmatch(r"[A-Z]+->[A-Z]+", name)} == taken


def test_a_zero_width_reset_that_runs_a_process_fails(simulator: VerilatorSimulator) -> None:
    unit = Unit(name="m", files=(SourceFile(name="m.sv", text=SEVERAL),), top="m")
    pulse = "$assertoff; fork begin @(negedge rst_n); rst_n = 1; end #1 rst_n = 0; join $asserton;"
    submission = Testbench(text=PULSING.replace("PULSE", pulse))
    done = asyncio.run(simulator.evaluate(Evaluate(unit=unit, submission=submission)))
    assert isinstance(done.outcome, SimulationFailed), done.outcome
    assert CLOCKLESS in done.outcome.message


def walled(unit: Unit) -> Unit:
    """Return the unit with recorders, inside a wrapper with its name and its ports."""
    reset = cast("Reset", unit.reset)
    header = ", ".join(f"{p.direction}put [{p.width - 1}:0] {p.name}" for p in ports(unit))
    held = "&& !active" if reset.active == "low" else "|| active"
    wall = f"""
      module {unit.top} ({header});
        bit clock, active;
        {DISTURBANCE.replace("clk", unit.clock)}
        core core (.*, .{unit.clock}(clock), .{reset.port}({reset.port} {held}));
      endmodule
    """
    core = re.sub(rf"\bmodule\s+{unit.top}\b", "module core", recorded(unit, reset))
    files = (msgspec.structs.replace(unit.files[0], text=f"`timescale 1ns/1ps\n{core}{wall}"),)
    return msgspec.structs.replace(unit, files=files, unreachable=(), points_sha256="")


def recorded(unit: Unit, reset: Reset) -> str:
    """Return the RTL, which is one file, with a recorder for each state machine."""
    (file,) = unit.files
    text = file.text
    for module, found in {body.definition.name: found for _, body, found in bodies(unit)}.items():
        recorders = "".join(recorder(unit, reset, machine.name) for machine in found)
        start = text.index(f"module {module} (")
        end = text.index("endmodule", start)
        text = text[:end] + recorders + text[end:]
    return text


def recorder(unit: Unit, reset: Reset, register: str) -> str:
    """Return code that prints the register's arcs as ``took PATH REGISTER SOURCE TARGET``."""
    active = reset.port if reset.active == "high" else f"!{reset.port}"
    states, own = f"1 << $bits({register})", f"taken_{register}"
    return f"""
      bit {own}_clock; bit [$bits({register})-1:0] {own}_from; bit {own}[{states}][{states}];
      always @({unit.clock} or {reset.port} or {register}) begin
        #1ps;
        if ({unit.clock} && !{own}_clock && !({active})) {own}[{own}_from][{register}] = 1;
        {own}_clock = {unit.clock};
        {own}_from = {register};
      end
      final foreach ({own}[a, b]) if (a != b && {own}[a][b])
        $display("took %m.{register} %0d %0d", a, b);
    """


def taken(log: str) -> Iterator[Arc]:
    """Yield the arcs that the recorders printed."""
    told = r"^took \S+?\.core((?:\.\w+)*?)(?:\.unnamedblk\d+)?\.(\w+) (\d+) (\d+)$"
    for below, register, source, target in re.findall(told, log, re.MULTILINE):
        yield Arc(
            instance=f"core{below}", register=register, source=int(source), target=int(target)
        )


def bodies(unit: Unit) -> list[tuple[str, InstanceBodySymbol, list[Machine]]]:
    """Return the instances of a unit in its wrapper, with their state machines."""
    rtl = elaborate(unit)
    found = [("core", rtl.top)]

    def visit(node: object) -> None:
        if isinstance(node, InstanceSymbol):
            found.append((f"core.{node.hierarchicalPath.partition('.')[2]}", node.body))

    rtl.top.visit(visit)
    return [(path, body, machines(body)) for path, body in found]


def arcs_of(unit: Unit) -> dict[Arc, tuple[str, str]]:
    """Return the instance and the name of each arc's point."""
    return {
        Arc(
            instance=path,
            register=machine.name,
            source=value(machine, source),
            target=value(machine, target),
        ): (path, f"{machine.name}." * (len(found) > 1) + f"{source}->{target}")
        for path, _, found in bodies(unit)
        for machine in found
        for source, target in machine.arcs
    }


def value(machine: Machine, state: str) -> int:
    return int(cast("SupportsInt", machine.states[state][0].value))

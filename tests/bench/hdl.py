"""Measures the hardware simulator: the cost of one evaluation, and that of the alternatives.

All figures are from one run, and compared variants alternate. An *evaluation* compiles, simulates
in the sandbox and scores the good testbench of a design; its CPU seconds include all its stages.
*Cached* is the wall clock, in milliseconds, of an evaluation that the journal answers
(`tests.bench.recalled`). *Plain* is Verilator as in its manual (`tests.bench.plain_verilator`), on
the same design and testbench. *Programs* are random stimulus programs on the design's compiled
harness, by the CPU time of harness and caller together, including its start. *Sandbox* is the cost
that the strongest sandbox adds to an evaluation with limits only. *Two* are two concurrent
evaluations, *one* is one after the other, by wall clock. All values are medians.
"""

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from rich.console import Group
from rich.table import Table

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.measuring import cpu_s
from coevolve.environments.hdl.evaluation.baselines.target import target_of
from coevolve.environments.hdl.evaluation.baselines.uniform import random_programs
from coevolve.environments.hdl.simulate.messages import Covered, Evaluate, Evaluated, Testbench
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from coevolve.environments.hdl.stimulus.harness import Harness
from coevolve.environments.sandbox.runner import Sandbox
from protocols.errors import SimulatorError
from tests.bench import output
from tests.bench.plain_verilator import plain_cpu_s, process_cpu_s
from tests.bench.recalled import recalled_ms

DESIGNS = ("sync_fifo", "alu16", "vend_fsm", "uart_lite")


class DesignFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One design."""

    design: str
    lines: int
    """Lines of RTL."""

    points: int
    evaluation_cpu_s: float
    cached_ms: float
    plain_cpu_s: float | None
    """None if it was not requested."""

    sandbox_cpu_s: float
    programs_per_cpu_s: float
    stages: dict[str, float]
    """CPU seconds of each stage of an evaluation."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All printed figures."""

    designs: tuple[DesignFigures, ...]
    one_per_s: float
    """Evaluations per second, one after the other."""

    two_per_s: float
    """Evaluations per second, two concurrently."""

    level: str
    """Level of the sandbox."""


def main(arguments: list[str]) -> None:
    """Measure, and print tables or JSON."""
    parser = output.parser_of("hdl", __doc__)
    parser.add_argument("--root", type=Path, default=Path("designs"), help="where designs lie")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5, help="evaluations of each design")
    parser.add_argument("--plain", type=int, default=1, help="plain builds of each design")
    parser.add_argument("--programs", type=int, default=500, help="stimulus programs a round")
    options = parser.parse_args(arguments)
    designs = [load(options.root / name) for name in options.designs]
    figures = asyncio.run(measured(designs, options))
    output.show(figures, tables, as_json=options.json, width=110)


async def measured(designs: Sequence[Design], options: argparse.Namespace) -> Figures:
    """Return the figures of all designs; the rounds of each design follow one another."""
    simulator = open_simulator()
    bare = VerilatorSimulator(
        simulator.toolchain, Sandbox([simulator.tools.runtime.folder], "limits")
    )
    rows = [await _of_design(design, simulator, bare, options) for design in designs]
    requests = [request_of(design) for design in designs for _ in range(0, options.rounds, 2)]
    one, two = await _rates(simulator, requests)
    return Figures(designs=tuple(rows), one_per_s=one, two_per_s=two, level=simulator.sandbox.level)


async def _of_design(
    design: Design,
    simulator: VerilatorSimulator,
    bare: VerilatorSimulator,
    options: argparse.Namespace,
) -> DesignFigures:
    request, text = request_of(design), design.testbenches["good"]
    points = await simulator.points(design.unit)
    await bare.points(design.unit)
    inside: list[Evaluated] = []
    outside: list[Evaluated] = []
    plain: list[float] = []
    rates: list[float] = []
    for number in range(options.rounds):
        inside.append(covered(await simulator.evaluate(request)))
        outside.append(covered(await bare.evaluate(request)))
        rates.append(await _programs_per_cpu_s(design, simulator, options.programs))
        if number < options.plain:
            plain.append(
                await asyncio.to_thread(plain_cpu_s, simulator.toolchain, design.unit, text)
            )
    return DesignFigures(
        design=design.design_id,
        lines=sum(file.text.count("\n") for file in design.unit.files),
        points=len(points),
        evaluation_cpu_s=median(map(cpu_s, inside)),
        cached_ms=await recalled_ms(simulator, request, inside[0]),
        plain_cpu_s=median(plain) if plain else None,
        sandbox_cpu_s=median(map(cpu_s, inside)) - median(map(cpu_s, outside)),
        programs_per_cpu_s=median(rates),
        stages=_stages(inside),
    )


async def _programs_per_cpu_s(design: Design, simulator: VerilatorSimulator, count: int) -> float:
    """Return random programs per CPU second; a child's CPU time is known when it ends."""
    programs = [*islice(random_programs(target_of(design), np.random.default_rng(1)), count)]
    harness = await Harness.open(
        design.unit, design.ports, simulator.toolchain, simulator.sandbox, optimise="-O2"
    )
    before = process_cpu_s()
    await harness.run(programs, seed=1)
    await harness.close()
    return count / (process_cpu_s() - before)


def request_of(design: Design) -> Evaluate:
    """Return a request for the good testbench's coverage."""
    testbench = Testbench(text=design.testbenches["good"])
    return Evaluate(unit=design.unit, submission=testbench, seed=design.file.seed)


def covered(evaluated: Evaluated) -> Evaluated:
    """Return the result if it has coverage. Raises SimulatorError for another outcome."""
    match evaluated.outcome:
        case Covered():
            return evaluated
        case outcome:
            raise SimulatorError(f"a good testbench has to run here, found {outcome}")


def _stages(evaluated: Sequence[Evaluated]) -> dict[str, float]:
    costs: defaultdict[str, list[float]] = defaultdict(list)
    for each in evaluated:
        for stage in each.stages:
            costs[stage.stage].append(stage.cpu_s)
    return {stage: median(each) for stage, each in costs.items()}


async def _rates(
    simulator: VerilatorSimulator, requests: Sequence[Evaluate]
) -> tuple[float, float]:
    """Return evaluations per second, one and two at a time; each request is made twice,
    alternating."""
    alone: list[float] = []
    together: list[float] = []
    for request in requests:
        started = time.perf_counter()
        await simulator.evaluate(request)
        await simulator.evaluate(request)
        alone.append(2 / (time.perf_counter() - started))
        started = time.perf_counter()
        await asyncio.gather(simulator.evaluate(request), simulator.evaluate(request))
        together.append(2 / (time.perf_counter() - started))
    return median(alone), median(together)


def tables(figures: Figures) -> Group:
    """Return the tables that are printed."""
    return Group(_by_design(figures), _by_stage(figures), _side_by_side(figures))


def _by_design(figures: Figures) -> Table:
    title = f"good.sv, CPU seconds, sandbox {figures.level}"
    headings = (
        "lines",
        "points",
        "graded",
        "plain",
        "ratio",
        "sandbox",
        "cached, ms",
        "programs/s",
    )
    rows = [
        (
            row.design,
            str(row.lines),
            str(row.points),
            f"{row.evaluation_cpu_s:.3f}",
            f"{row.plain_cpu_s:.2f}" if row.plain_cpu_s else "",
            f"{row.plain_cpu_s / row.evaluation_cpu_s:.1f}" if row.plain_cpu_s else "",
            f"{row.sandbox_cpu_s:+.3f}",
            f"{row.cached_ms:.2f}",
            f"{row.programs_per_cpu_s:,.0f}",
        )
        for row in figures.designs
    ]
    return output.table(title, ("design", *headings), rows)


def _by_stage(figures: Figures) -> Table:
    stages = [*dict.fromkeys(stage for row in figures.designs for stage in row.stages)]
    rows = [
        (row.design, *(f"{row.stages.get(stage, 0.0):.3f}" for stage in stages))
        for row in figures.designs
    ]
    return output.table("CPU seconds of an evaluation, by stage", ("design", *stages), rows)


def _side_by_side(figures: Figures) -> Table:
    ratio = figures.two_per_s / figures.one_per_s
    row = (f"{figures.one_per_s:.2f}", f"{figures.two_per_s:.2f}", f"{ratio:.2f}")
    title = "Evaluations per second of wall clock"
    return output.table(title, ("one", "two", "ratio"), [row], words=0)

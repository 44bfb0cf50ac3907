"""Measures the coverage of stimulus that is made without a model.

The baselines are *long* random runs, *random* programs of the grammar, and *structural* programs,
of which there may be fewer. The best single program of each counts.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from rich.table import Table

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.evaluation.baselines.probes import baselines
from coevolve.environments.hdl.evaluation.baselines.target import target_of
from coevolve.environments.hdl.simulate.messages import Coverage
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from coevolve.environments.hdl.stimulus.harness import Harness
from coevolve.environments.hdl.stimulus.program import Program
from coevolve.environments.sdk import Terminal


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Overall averages of the baselines on one design, 0..1."""

    design: str
    split: str
    threshold: float
    best: dict[str, float]


async def reached(design: Design, simulator: VerilatorSimulator, calls: int, seed: int) -> Reached:
    """Return the best coverage of each baseline on ``design`` in at most ``calls`` programs."""
    harness = await Harness.open(
        design.unit, design.ports, simulator.toolchain, simulator.sandbox, optimise="-O2"
    )

    async def score(programs: Sequence[Program]) -> Sequence[Coverage]:
        return await harness.run(programs, seed)

    try:
        best = {
            name: await best_of(programs, calls, score)
            for name, programs in baselines(target_of(design), seed).items()
        }
    finally:
        await harness.close()
    return Reached(
        design=design.design_id,
        split=design.file.split,
        threshold=design.file.threshold,
        best={name: each.coverage.overall_average for name, each in best.items()},
    )


def measure(folders: Sequence[Path], *, calls: int, seed: int, as_json: bool) -> None:
    """Run the baselines with ``calls`` simulator calls for each design, and print the results.

    Raises CoevolveError where a design or the simulator cannot be used.
    """
    rows = asyncio.run(_run_baselines(folders, calls, seed))
    if as_json:
        sys.stdout.write("".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows))
    else:
        Terminal().print(_table(rows))


async def _run_baselines(folders: Sequence[Path], calls: int, seed: int) -> list[Reached]:
    simulator = open_simulator()
    designs = [load(folder) for folder in folders]
    return [await reached(design, simulator, calls, seed) for design in designs]


def _table(rows: Sequence[Reached]) -> Table:
    table = Table(title="Overall average of the best program, %")
    table.add_column("design", no_wrap=True)
    table.add_column("split")
    for heading in ("threshold", *rows[0].best):
        table.add_column(heading, justify="right")
    for row in rows:
        shares = (row.threshold, *row.best.values())
        table.add_row(row.design, row.split, *(f"{100 * share:.1f}" for share in shares))
    return table


Score = Callable[[Sequence[Program]], Awaitable[Sequence[Coverage]]]
"""Runs programs, with one simulator call each."""


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The best program of a baseline."""

    program: Program
    coverage: Coverage


async def best_of(programs: Iterator[Program], calls: int, score: Score) -> Best:
    """Run the first ``calls`` programs, or all if there are fewer, and return the best.

    Of equals the first. Raises ValueError if there is no program.
    """
    tried = tuple(islice(programs, calls))
    if not tried:
        raise ValueError(f"best of {calls} needs a program to try, found none")
    coverages = await score(tried)
    averages = [coverage.overall_average for coverage in coverages]
    first = averages.index(max(averages))
    return Best(program=tried[first], coverage=coverages[first])

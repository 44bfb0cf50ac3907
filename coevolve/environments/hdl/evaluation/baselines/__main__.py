"""Measures what stimulus without a model reaches.

`python -m coevolve.environments.hdl.evaluation.baselines DESIGN ...`

Each baseline makes ``--calls`` calls of the simulator for each design, through its compiled
harness, and the best single program counts: *long* random runs, *random* programs of the grammar,
and *structural* ones, which may run out of programs before. Prints overall averages in per cent.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from coevolve.environments.hdl.needs import leave_without_slang

if __name__ == "__main__":
    leave_without_slang()

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.evaluation.baselines.best_of import best_of
from coevolve.environments.hdl.evaluation.baselines.structural import structural_programs
from coevolve.environments.hdl.evaluation.baselines.target import Target, target_of
from coevolve.environments.hdl.evaluation.baselines.uniform import long_runs, random_programs
from coevolve.environments.hdl.simulate.messages import Coverage
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from coevolve.environments.hdl.stimulus.harness import Harness
from coevolve.environments.hdl.stimulus.program import Program
from protocols.errors import CoevolveError


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What the baselines reach on one design: overall averages, 0..1."""

    design: str
    split: str
    threshold: float
    best: dict[str, float]


def baselines(target: Target, seed: int) -> dict[str, Iterator[Program]]:
    """Return the programs of each baseline."""
    return {
        "long": long_runs(target),
        "random": random_programs(target, np.random.default_rng(seed)),
        "structural": structural_programs(target),
    }


async def reached(design: Design, simulator: VerilatorSimulator, calls: int, seed: int) -> Reached:
    """Return what each baseline reaches on ``design`` with at most ``calls`` programs."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the baselines, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.environments.hdl.evaluation.baselines", description=__doc__
    )
    parser.add_argument("designs", nargs="+", type=Path, metavar="DESIGN")
    parser.add_argument("--calls", type=int, default=64, help="of the simulator, each baseline")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON, a line a design")
    options = parser.parse_args(arguments)
    try:
        rows = asyncio.run(_reached(options))
    except CoevolveError as error:
        sys.stderr.write(f"baselines: {error}\n")
        return 2
    if options.json:
        sys.stdout.write("".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows))
    else:
        Console().print(_table(rows))
    return 0


async def _reached(options: argparse.Namespace) -> list[Reached]:
    simulator = open_simulator()
    designs = [load(folder) for folder in options.designs]
    return [await reached(design, simulator, options.calls, options.seed) for design in designs]


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


if __name__ == "__main__":
    sys.exit(main())

"""The coverage that stimulus without a model reaches on designs, in per cent.

The baselines are *long* random runs, *random* programs of the grammar, and *structural* programs,
of which there may be fewer. The best single program of each counts: ``python -m tests.bench
hdl-baselines designs/sync_fifo --calls 6``.
"""

import asyncio
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
from tests.bench import output


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


async def _run_baselines(folders: Sequence[Path], calls: int, seed: int) -> list[Reached]:
    simulator = open_simulator()
    designs = [load(folder) for folder in folders]
    return [await reached(design, simulator, calls, seed) for design in designs]


def drawn(rows: Sequence[Reached]) -> Table:
    """Return a row for each design."""
    cells = [
        [row.design, row.split, *(f"{100 * x:.1f}" for x in (row.threshold, *row.best.values()))]
        for row in rows
    ]
    headings = ("design", "split", "threshold", *rows[0].best)
    return output.table("Overall average of the best program, %", headings, cells, words=2)


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = output.parser_of("hdl-baselines", __doc__)
    parser.add_argument("designs", nargs="*", type=Path, help="folders; default: all of designs/")
    parser.add_argument("--calls", type=int, default=64, help="calls of each baseline")
    parser.add_argument("--seed", type=int, default=1, help="of random stimulus")
    given = parser.parse_args(arguments)
    folders = given.designs or sorted(file.parent for file in Path("designs").glob("*/design.yaml"))
    rows = asyncio.run(_run_baselines(folders, given.calls, given.seed))
    output.show(rows, drawn, as_json=given.json)


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

"""Cuts the power of a journal, and of a run's files, at many places, and checks what is left.

The disk, the workload and the promise of each level: `tests/powercuts/`. *Whole* counts the cuts
after which the level's promise held, *undone* the acknowledged writes that the level does not
promise to keep.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.table import Table

from tests.bench import output
from tests.powercuts.cutting import Cuts, Level, cut

IMAGES = Path("/dev/shm")


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("powercuts", __doc__)
    parser.add_argument("--cuts", type=int, default=1000, help="cuts of each level")
    parser.add_argument("--lives", type=int, default=5, help="processes of a workload")
    parser.add_argument("--seconds", type=float, default=1.0, help="mean life of a process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--levels", default=",".join(get_args(Level)))
    options = parser.parse_args(arguments)
    levels = [level for level in get_args(Level) if level in options.levels.split(",")]
    rows = [measured(level, options) for level in levels]
    output.show(rows, _table, as_json=options.json)


def measured(level: Level, options: argparse.Namespace) -> Cuts:
    """Cut the power of one level. The disks are in memory, so that checking them takes no disk."""
    memory = IMAGES if IMAGES.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="power-cuts-") as place,
        tempfile.TemporaryDirectory(prefix="power-cuts-", dir=memory) as images,
    ):
        return cut(
            level,
            options.cuts,
            lives=options.lives,
            life_s=options.seconds,
            seed=options.seed,
            place=Path(place),
            images=Path(images),
        )


def _table(rows: Sequence[Cuts]) -> Table:
    headings = ("level", "cuts", "whole", "events", "acknowledged", "undone", "faults")
    cells = [
        (
            row.level,
            *map(output.number, (row.cuts, row.whole, row.events, row.acknowledged, row.undone)),
            "; ".join(f"{count} x {fault}" for fault, count in row.faults.items()),
        )
        for row in rows
    ]
    return output.table("power cuts", headings, cells)

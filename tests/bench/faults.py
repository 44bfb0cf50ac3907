"""Changes bytes of a run's files and counts what its readers then say.

Each fault is a single one: a changed bit, two swapped pages, a zeroed page, a page as it was at an
earlier time, or a file that ends early. Half of the pages are drawn from all pages, half from those
of LMDB's own structure, of which there are few. After each fault everything is read by the normal
readers, in a process of its own, and then the journal's writer works with it.

| outcome    | meaning                                                      |
|------------|--------------------------------------------------------------|
| `clear`    | an error of the project's own, with the file and the remedy  |
| `harmless` | all answers are right                                        |
| `silent`   | a wrong answer without an error                              |
| `raw`      | any other exception, or the end of the process               |
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
from rich.table import Table

from tests.bench import output
from tests.fault_files import KINDS, FaultyFiles
from tests.faults import Kind, Outcome, Verdict, planted, tried

JOURNAL_BYTES = 5_000_000
FAULTS = 1000
IN_FILES = 0.2
"""Share of the faults in weights, checkpoints and config."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of fault."""

    kind: str
    outcomes: dict[str, int]


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON; exit with 1 if a fault was silent or raw."""
    parser = output.parser_of("faults", __doc__)
    parser.add_argument("--faults", type=int, default=FAULTS, help="number of faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to write")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-faults-", dir=options.folder) as folder:
        verdicts = measured(Path(folder), options.faults, options.seed)
    rows = [
        Row(kind=kind, outcomes=Counter(each.outcome for each in verdicts if each.kind == kind))
        for kind in dict.fromkeys(each.kind for each in verdicts)
    ]
    output.show(rows, _table, as_json=options.json)
    wrong = [each for each in verdicts if each.outcome in ("silent", "raw")]
    for each in wrong[:20]:
        sys.stderr.write(f"{each.kind}: {each.outcome}: {each.said}\n")
    sys.exit(1 if wrong else 0)


def measured(folder: Path, faults: int, seed: int) -> list[Verdict]:
    """Return what became of each fault."""
    chance = random.Random(seed)
    in_files = int(IN_FILES * faults)
    journal = planted(folder / "store", JOURNAL_BYTES, seed)
    kinds = get_args(Kind)
    verdicts = [
        tried(journal, kinds[number % len(kinds)], chance, folder / "trial")
        for number in range(faults - in_files)
    ]
    files = FaultyFiles(folder / "run")
    return verdicts + [
        files.tried(KINDS[number % len(KINDS)], chance) for number in range(in_files)
    ]


def _table(rows: Sequence[Row]) -> Table:
    outcomes = get_args(Outcome)
    cells = [(row.kind, *(str(row.outcomes.get(each, 0)) for each in outcomes)) for row in rows]
    total = [str(sum(row.outcomes.get(each, 0) for row in rows)) for each in outcomes]
    return output.table("Single faults", ("fault", *outcomes), [*cells, ("all", *total)])

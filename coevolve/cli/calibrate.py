"""Measures how often each rule fires by chance: `python -m coevolve.calibrate [RUN.yaml ...]`.

The rules of both sets stand side by side (`coevolve.signals.calibration` says what is measured).
Group size, window and thresholds are those of the run file, the defaults without one. Exits 0 where
every posterior rule keeps its false alarms within `LIMIT` at every level, 1 where one does not or
the run file has faults.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from coevolve.config import load_config
from coevolve.signals.calibration import Rate, Size, calibrate
from protocols.config import RunConfig
from protocols.errors import CoevolveError

LIMIT = 0.05
"""False alarms of a posterior rule, at most, per evaluation."""


def worst(rates: Sequence[Rate], rules: str) -> Rate:
    """Return the highest false-alarm rate of a rule set."""
    alarms = [each for each in rates if each.rules == rules and each.meaning == "false alarm"]
    return max(alarms, key=lambda each: each.rate)


def tables(rates: Sequence[Rate]) -> list[Table]:
    """Return one table a kind of signal, the rule sets side by side."""
    made: list[Table] = []
    for kind, of_kind in groupby(rates, key=lambda each: each.kind):
        table = Table("situation", "a finding is a", title=kind, title_justify="left")
        table.add_column("paper", justify="right")
        table.add_column("posterior", justify="right")
        cells: dict[tuple[str, str], dict[str, str]] = {}
        for each in of_kind:
            shown = f"{each.rate:.3f}" if each.evaluations else "-"
            cells.setdefault((each.situation, each.meaning), {})[each.rules] = shown
        for (situation, meaning), by_rules in cells.items():
            table.add_row(situation, meaning, by_rules["paper"], by_rules["posterior"])
        made.append(table)
    return made


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print, or exit with the reason why not."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.calibrate", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("run_file", type=Path, nargs="?", help="a YAML file, see configs/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="signals.window=5 ...")
    parser.add_argument("--seed", type=int, default=0, help="of the simulated policies")
    parser.add_argument(
        "--histories", type=int, default=2000, help="to simulate, by rule and level"
    )
    parser.add_argument("--json", action="store_true", help="print every count as JSON")
    arguments = parser.parse_args(words)
    try:
        config = (
            load_config(arguments.run_file, arguments.overrides)
            if arguments.run_file
            else RunConfig(name="defaults")
        )
    except CoevolveError as error:
        Console(stderr=True).print(str(error), markup=False, highlight=False)
        sys.exit(1)
    rates = calibrate(config, size=_size(arguments.histories), seed=arguments.seed)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(rates) + b"\n")
    else:
        _show(rates)
    sys.exit(0 if worst(rates, "posterior").rate <= LIMIT else 1)


def _size(histories: int) -> Size:
    """Return how much to simulate: a pattern's history and a pool are longer than a task's."""
    return Size(tasks=histories, patterns=max(1, histories // 30), pools=max(1, histories // 100))


def _show(rates: Sequence[Rate]) -> None:
    console = Console()
    for table in tables(rates):
        console.print(table)
    for rules in ("paper", "posterior"):
        most = worst(rates, rules)
        console.print(
            f"{rules}: at most {most.rate:.1%} false alarms ({most.kind}, {most.situation})",
            highlight=False,
        )
    console.print(
        "Rates are per evaluation. A boundary finding inside the band is a detection, no false "
        "alarm: the signal is about the level, changed or not.",
        highlight=False,
    )

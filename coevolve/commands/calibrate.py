"""Measures how often each signal rule fires by chance.

The rules of both sets stand side by side (`coevolve.signals.calibration` says what is measured).
"""

import sys
from collections.abc import Sequence
from itertools import groupby

import msgspec
from rich.table import Table

from coevolve.base.terminal import Terminal
from coevolve.signals.calibration import Rate, Size, calibrate
from protocols.config import RunConfig

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
            table.add_row(
                situation, meaning, by_rules.get("paper", "\N{EN DASH}"), by_rules["posterior"]
            )
        made.append(table)
    return made


def measure(config: RunConfig, *, histories: int, seed: int, as_json: bool) -> bool:
    """Simulate, print, and return whether the posterior rules keep within `LIMIT`.

    ``histories`` are simulated of a task, for each rule and level.
    """
    rates = calibrate(config, size=_size(histories), seed=seed)
    if as_json:
        sys.stdout.write(msgspec.json.encode(rates).decode() + "\n")
    else:
        _show(rates)
    return worst(rates, "posterior").rate <= LIMIT


def _size(histories: int) -> Size:
    """Return how much to simulate: a pattern's history and a pool are longer than a task's."""
    return Size(tasks=histories, patterns=max(1, histories // 30), pools=max(1, histories // 100))


def _show(rates: Sequence[Rate]) -> None:
    console = Terminal()
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

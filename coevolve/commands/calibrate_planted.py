"""Measures which rules find losses that are planted into recorded runs."""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec
from msgspec.structs import replace
from rich.table import Table

from coevolve.base.terminal import Terminal
from coevolve.config.preflight import install
from coevolve.environments.registry import environment_of
from coevolve.environments.rewards_only import TaskObserver
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.history.directory import RunDirectory
from coevolve.history.score import wilson
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import whole_topic
from coevolve.journal.reader import run_reader
from coevolve.signals.detector import Detector
from coevolve.signals.planted import HORIZON, Loss, Recording, RuleSet, microseconds
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.evolution import GroupSummary
from protocols.evolution_config import SignalsConfig
from protocols.interfaces import Reader

MOST_LOSSES = 60
"""Losses that are planted into a run."""

SWEPT: tuple[tuple[RuleSet, str, tuple[float, ...]], ...] = (
    ("posterior", "false_discovery", (0.4, 0.05)),
    ("paper", "window", (10, 1)),
    ("skills", "forgetting_evidence", (3.0, 4.0, 5.0, 6.0)),
)
"""The setting of each set of rules that trades losses found for false alarms, and its values."""

ALLOWED = (1, 5)
"""False alarms a run at which the rules are compared."""

REMEMBERED = (100, 100_000)
"""Tasks that a run remembers while the time of a visit is measured."""


Planted = Sequence[tuple[Recording, Sequence[Loss]]]
"""Runs, and the losses that are planted into each."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one set of rules did in all runs."""

    rules: str
    setting: str
    is_default: bool
    losses: int
    found: int
    by_chance: int
    delays: tuple[int, ...]
    """Policy versions until a loss was found, of each that was."""

    false_alarms: float
    """Of a run, on average."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All that is measured."""

    rows: tuple[Row, ...]
    microseconds: dict[str, tuple[float, ...]]
    """CPU time of a visit by rules, for each of `REMEMBERED`."""


def measure_planted(folders: Sequence[Path], *, seed: int, as_json: bool) -> None:
    """Plant losses into recorded runs, and print the results. Raises RunError."""
    runs = [_recording(folder) for folder in folders]
    planted = [(run, run.losses(MOST_LOSSES, seed)) for run in runs]
    for folder, (_, losses) in zip(folders, planted, strict=True):
        if not losses:
            raise RunError(
                f"{folder}: needs a part of skills that is managed often enough, before and after "
                f"one of the versions {HORIZON}, {2 * HORIZON}, ... with {HORIZON} more after it; "
                "found none; take a longer run of an environment whose references are calls"
            )
    result = Result(
        rows=tuple(
            _row(rules, name, value, planted, seed)
            for rules, name, values in SWEPT
            for value in values
        ),
        microseconds={
            rules: tuple(microseconds(runs[0], rules, tasks) for tasks in REMEMBERED)
            for rules, _, _ in SWEPT
        },
    )
    if as_json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        _show(result, len(runs))


def _recording(folder: Path) -> Recording:
    config = RunDirectory(folder).config()
    install(config)
    reader = run_reader(folder)
    return Recording(asyncio.run(_visits(reader)), config, partial(_detector, reader))


async def _visits(reader: Reader) -> list[GroupSummary]:
    topic = topic_of(GroupSummary)
    return [decode_as(each, GroupSummary) async for each in whole_topic(reader, topic)]


def _detector(reader: Reader, config: RunConfig) -> Detector:
    environment = environment_of(config)
    if not isinstance(environment, ToolEnvironment):
        raise RunError(
            f"{config.name}: needs a run with tools, whose tasks share parts, found one of "
            f"environment {config.uses}; name another run"
        )
    observer = environment.observer(reader, ())
    assert isinstance(observer, TaskObserver)
    return observer.piece


def _row(rules: RuleSet, name: str, value: float, planted: Planted, seed: int) -> Row:
    changed: dict[str, Any] = {"rules": rules, name: value}
    found = [
        run.found(replace(run.config.signals, **changed), losses, seed) for run, losses in planted
    ]
    return Row(
        rules=rules,
        setting=f"{name}={value:g}",
        is_default=value == getattr(SignalsConfig(), name),
        losses=sum(each.losses for each in found),
        found=sum(len(each.delays) for each in found),
        by_chance=sum(each.by_chance for each in found),
        delays=tuple(delay for each in found for delay in each.delays),
        false_alarms=fmean(each.false_alarms for each in found),
    )


def _show(result: Result, runs: int) -> None:
    console = Terminal(highlight=False)
    console.print(
        _table(
            result.rows,
            f"{result.rows[0].losses} losses in {runs} runs; versions to find: {HORIZON}",
        )
    )
    for most in ALLOWED:
        best = ", ".join(_best(rules, result.rows, most) for rules, _, _ in SWEPT)
        console.print(f"Found at no more than {most} false alarms a run, on average: {best}.")
    for rules, times in result.microseconds.items():
        told = " / ".join(f"{time_us:.0f}" for time_us in times)
        tasks = " / ".join(f"{number:,}" for number in REMEMBERED)
        console.print(f"{rules}: {told} µs of CPU a visit, with {tasks} remembered tasks")


def _table(rows: Sequence[Row], title: str) -> Table:
    table = Table("rules", title=title, caption="*: the default; false alarms are of a run")
    table.add_column("signals.", no_wrap=True)
    columns = ("found", "by chance", "delay", "false alarms")
    for column in columns:
        table.add_column(column, justify="right")
    for each in rows:
        share = each.found / each.losses
        low, high = wilson(share, each.losses)
        table.add_row(
            each.rules + "*" * each.is_default,
            each.setting,
            f"{share:.0%} [{100 * low:.0f}, {100 * high:.0f}]",
            f"{each.by_chance / each.losses:.0%}",
            f"{median(each.delays):g}" if each.delays else "-",
            f"{each.false_alarms:.1f}",
        )
    return table


def _best(rules: str, rows: Sequence[Row], most: float) -> str:
    fitting = [each for each in rows if each.rules == rules and each.false_alarms <= most]
    best = max(fitting, key=lambda each: each.found, default=None)
    shown = f"{best.found / best.losses:.0%} ({best.setting})" if best else "at no setting"
    return f"{rules} {shown}"

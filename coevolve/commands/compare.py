"""Makes the runs of a study, and tells what they say about its arms.

All numbers are read from the runs' journals. Each run leaves one small file beside its folder, so
that the same command goes on after an interruption, and prints the same tables again.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean

import msgspec
from rich.table import Table

from coevolve.base.durable_files import replace_file
from coevolve.base.terminal import Terminal
from coevolve.commands.contrasts import (
    ALPHA,
    contrasts_of,
    detectable_sds,
    gap_share,
    smallest_p,
)
from coevolve.commands.grid import By, Plan, run_grid
from coevolve.commands.intervals import interval, told
from coevolve.commands.study import Study
from coevolve.journal.codec import decode, topics_of
from coevolve.journal.fold import in_order
from coevolve.journal.reader import run_reader
from protocols.config import RunConfig
from protocols.errors import JournalError
from protocols.evolution import GroupSummary, ProbeReport, Signal
from protocols.journal import Message
from protocols.learning import Evaluation
from protocols.tasks import Synthesized, Task

OF_RESUMPTION = ("checkpoints", "versions")
"""Folders of a run that only its continuation needs; they are most of its size."""


class Outcome(msgspec.Struct, kw_only=True):
    """What a study keeps of one run."""

    scores: dict[int, float] = msgspec.field(default_factory=dict[int, float])
    """Policy version -> mean score of the held-out tasks, 0..1."""

    made: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Number of tasks that the run made, by their skills."""

    signals: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Number by kind."""

    rollouts: int = 0
    """Of training, and of attempts at candidates."""

    tokens: int = 0
    """Sampled in those rollouts."""

    calls: int = 0
    """Carried out by simulators in those rollouts."""

    def fold(self, message: Message) -> None:
        """Add a record."""
        match message:
            case Evaluation(version=version, scores=scores):
                self.scores[version] = fmean(each.score for each in scores)
            case Task(origin=Synthesized()) as task:
                self._count(self.made, "+".join(task.skills))
            case Signal(kind=kind):
                self._count(self.signals, kind)
            case GroupSummary() | ProbeReport() as group:
                self.rollouts += group.rollouts
                self.tokens += group.sampled_tokens
                self.calls += group.calls
            case _:
                return

    @staticmethod
    def _count(counts: dict[str, int], name: str) -> None:
        counts[name] = counts.get(name, 0) + 1

    def result(self, last: int) -> float:
        """Return the mean of the last scores, in per cent."""
        return 100 * fmean(self.scores[version] for version in sorted(self.scores)[-last:])


Outcomes = Mapping[tuple[str, int], Outcome]
"""By arm and seed."""


def compare(plans: Sequence[Plan], folder: Path, *, at_once: int, by: By) -> Outcomes:
    """Make the runs that are missing in ``folder``; return all outcomes. Raises RunError."""
    read = partial(outcome_of, is_whole=by == "coevolve.launch")
    return run_grid(plans, folder, read, jobs=at_once, by=by)


def outcome_of(folder: Path, config: RunConfig, *, is_whole: bool) -> Outcome | None:
    """Return the outcome of a run, and keep it beside the run; None if the run is not finished.

    A finished run loses its checkpoints and weights, unless it ``is_whole``.
    """
    kept = _kept(folder)
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Outcome)
    try:
        outcome = asyncio.run(_read(folder))
    except JournalError:
        return None  # not begun, or killed at once
    if config.learner.steps not in outcome.scores:
        return None
    replace_file(kept, msgspec.json.encode(outcome))
    for name in () if is_whole else OF_RESUMPTION:
        shutil.rmtree(folder / name, ignore_errors=True)
    return outcome


def _kept(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


async def _read(folder: Path) -> Outcome:
    outcome = Outcome()
    topics = topics_of(Evaluation, Task, Signal, GroupSummary, ProbeReport)
    async for record in in_order(run_reader(folder), topics):
        outcome.fold(decode(record))
    return outcome


def print_plan(study: Study, plans: Sequence[Plan], folder: Path, console: Terminal) -> None:
    """Print what a study would do, and what it could see."""
    seeds = len({plan.seed for plan in plans})
    missing = [plan for plan in plans if not _kept(folder / plan.name).exists()]
    console.print(
        f"{len(study.arms)} arms of {seeds} seeds: {len(plans)} runs of {study.run_file}, of which "
        f"{len(missing)} are missing in {folder}."
    )
    contrasts = len(study.contrasts)
    console.print(
        f"{contrasts} contrasts, paired by seed. A difference of "
        f"{detectable_sds(seeds, contrasts):.2f} standard deviations of a pair would be seen in "
        "about 80 % of such studies (two-sided, 5 % for all contrasts together). The smallest "
        f"corrected p of {seeds} pairs is {smallest_p(seeds, contrasts):.3f}"
        + ("." if smallest_p(seeds, contrasts) <= ALPHA else ": nothing can be established.")
    )
    for arm, changed in study.arms.items():
        console.print(f"  {arm}: {' '.join(changed) or 'the run file as it is'}")


def print_tables(study: Study, outcomes: Outcomes, console: Terminal) -> None:
    """Print scores, contrasts, what the arms cost and made, and how far apart their tasks are."""
    results = {key: each.result(study.last_scores) for key, each in outcomes.items()}
    console.print(_scores(study, outcomes, results))
    console.print(_contrasts(study, results))
    console.print(_costs(study, outcomes))
    console.print(_treatment(study, outcomes))


def _scores(study: Study, outcomes: Outcomes, results: Mapping[tuple[str, int], float]) -> Table:
    columns = ("arm", "start", "end", "share of the gap", "all scores")
    table = _table(f"Score, %; end: mean of the last {study.last_scores}", columns)
    for arm, of in _by_arm(study, outcomes).items():
        table.add_row(
            arm,
            f"{fmean(100 * each.scores[min(each.scores)] for each in of):.1f}",
            told(interval([end for (name, _), end in results.items() if name == arm]), ".1f"),
            told(gap_share(results, arm, *study.gap), ".2f") if study.gap else "",
            f"{fmean(each.result(len(each.scores)) for each in of):.1f}",
        )
    return table


def _costs(study: Study, outcomes: Outcomes) -> Table:
    columns = ("arm", "rollouts", "tokens", "calls", "made tasks", "signals")
    table = _table("Means of a run", columns)
    for arm, of in _by_arm(study, outcomes).items():
        kinds = Counter[str]()
        for each in of:
            kinds.update(each.signals)
        table.add_row(
            arm,
            f"{fmean(each.rollouts for each in of):,.0f}",
            f"{fmean(each.tokens for each in of):,.0f}",
            f"{fmean(each.calls for each in of):,.0f}",
            f"{fmean(sum(each.made.values()) for each in of):,.0f}",
            ", ".join(f"{kind} {count / len(of):.0f}" for kind, count in sorted(kinds.items())),
        )
    return table


def _by_arm(study: Study, outcomes: Outcomes) -> Mapping[str, Sequence[Outcome]]:
    return {arm: [each for (a, _), each in outcomes.items() if a == arm] for arm in study.arms}


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name)
    return table


def _contrasts(study: Study, results: Mapping[tuple[str, int], float]) -> Table:
    columns = ("contrast", "pairs", "mean", "p", "p (Holm)", "detectable", "it says")
    table = _table("Differences, points, paired by seed", columns)
    for each in contrasts_of(results, study.contrasts):
        table.add_row(
            f"{each.arm} - {each.other}",
            str(len(each.differences)),
            told(each.bounds),
            f"{each.p:.3f}",
            f"{each.holm:.3f}",
            f"{each.detectable:.1f}",
            each.verdict,
        )
    return table


def _treatment(study: Study, outcomes: Outcomes) -> Table:
    """Return how different the arms' made tasks are: total variation over their skills."""
    made = {arm: [each.made for each in of] for arm, of in _by_arm(study, outcomes).items()}
    shown = [arm for arm, every in made.items() if any(every)]
    table = _table("Total variation between runs' made tasks, 0..1", ("arm", *shown))
    for arm in shown:
        cells = (_apart(made[arm], made[other], arm == other) for other in shown)
        table.add_row(arm, *(f"{each:.2f}" for each in cells))
    return table


def _apart(
    ones: Sequence[Mapping[str, int]], others: Sequence[Mapping[str, int]], is_same: bool
) -> float:
    pairs = combinations(ones, 2) if is_same else zip(ones, others, strict=True)
    return fmean(total_variation(one, other) for one, other in pairs)


def total_variation(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return half the sum of the differences of shares; 0 for equal shares, 1 for disjoint ones."""
    total, of_other = sum(one.values()), sum(other.values())
    if not (total and of_other):
        return float(total != of_other)
    names = {*one, *other}
    return sum(abs(one.get(n, 0) / total - other.get(n, 0) / of_other) for n in names) / 2


def cores() -> int:
    """Return how many runs fit this machine at a time: two a core, since runs often wait."""
    return 2 * len(os.sched_getaffinity(0))

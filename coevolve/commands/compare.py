"""Makes the runs of a study, and reads what its comparison needs.

All numbers are read from the runs' journals. Each run leaves one small file beside its folder, so
that the same command goes on after an interruption, and prints the same tables again.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import msgspec
import psutil

from coevolve.base.durable_files import replace_file
from coevolve.base.terminal import Terminal
from coevolve.commands.contrasts import (
    ALPHA,
    detectable_sds,
    smallest_p,
)
from coevolve.commands.grid import By, Plan, code_of, run_grid
from coevolve.commands.study import Study
from coevolve.config import preflight
from coevolve.estimate.memory import expected
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

    code: str = ""
    """Digest of the code by which the run was begun."""

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
    """Make the runs that are missing in ``folder``; return all outcomes.

    Raises CoevolveError before the first one if an arm's cannot start, and RunError if one fails.
    """
    for plan in {each.arm: each for each in reversed(missing(plans, folder))}.values():
        _check(plan, folder, by)
    read = partial(outcome_of, is_whole=by == "coevolve.launch")
    return run_grid(plans, folder, read, jobs=at_once, by=by)


def missing(plans: Sequence[Plan], folder: Path) -> Sequence[Plan]:
    """Return the plans whose outcome is not kept in ``folder``."""
    return [plan for plan in plans if not _kept(folder / plan.name).exists()]


def _check(plan: Plan, folder: Path, by: By) -> None:
    """Check that a run can start, as it will do itself. Raises CoevolveError."""
    if by == "coevolve.loop":
        preflight.check_run(plan.config, folder)
        return
    from coevolve.launcher.launch import check  # imports Ray

    config = msgspec.structs.replace(plan.config, name=plan.name)
    check(config, folder, resume=(folder / plan.name / "run.json").exists())


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
    outcome.code = code_of(folder)
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
    console.print(
        f"{len(study.arms)} arms of {seeds} seeds: {len(plans)} runs of {study.run_file}, of which "
        f"{len(missing(plans, folder))} are missing in {folder}."
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


def runs_at_once(plans: Sequence[Plan], folder: Path) -> int:
    """Return how many runs fit this machine at a time, at least one.

    Two a core, since runs often wait, as long as what a run takes at its peak is free for each.
    """
    most = 2 * len(os.sched_getaffinity(0))
    taken = max((_memory(plan, folder) for plan in plans), default=0)
    free = psutil.virtual_memory().available
    return max(1, min(most, free // taken if taken else most))


def _memory(plan: Plan, folder: Path) -> int:
    """Return the estimate of a run's main memory in bytes; 0 if there is none."""
    parts = expected(plan.config, folder / plan.name, imitates_others=True)
    return sum(size or 0 for size in parts.values())

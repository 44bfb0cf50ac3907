"""The results of an ablation's runs, read from their journals, and their comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.table import Table

from coevolve.commands.intervals import interval, told
from coevolve.environments.hdl.designs.design import Design
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import decode_as
from coevolve.journal.paging import whole_topic
from coevolve.journal.reader import run_reader
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.learning import Evaluation, StepReport
from protocols.rollouts import Rollout
from protocols.tasks import NOTHING

SPLITS = {"train": "seen", "held_out": "held out"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run: the coverage of each design, in [0, 1], and the work that it took."""

    before: Mapping[str, float]
    after: Mapping[str, float]

    trained: int
    """Number of rollouts that the learner trained on."""

    calls: int
    """Simulator calls of all rollouts; the run requests slightly more rollouts than it trains
    on."""


Outcomes = Mapping[tuple[str, int], Outcome]
"""By arm and seed."""


async def outcome_of(folder: Path, config: RunConfig) -> Outcome | None:
    """Return the result of the run in ``folder``; None if it is not finished."""
    if not RunDirectory(folder).metrics.exists():
        return None
    reader, scores = run_reader(folder), dict[int, dict[str, float]]()
    async for record in whole_topic(reader, "evaluation"):
        made = decode_as(record, Evaluation)
        scores[made.version] = {each.task_id: each.score for each in made.scores}
    if config.learner.steps not in scores:
        return None
    steps = [decode_as(r, StepReport) async for r in whole_topic(reader, "step_report")]
    rollouts = [decode_as(r, Rollout) async for r in whole_topic(reader, "rollout")]
    return Outcome(
        before=scores[0],
        after=scores[config.learner.steps],
        trained=sum(len(group.sequences) for step in steps for group in step.groups),
        calls=sum(each.outcome != NOTHING for each in rollouts),
    )


def alike(found: Outcomes) -> None:
    """Refuse runs that trained on different numbers of rollouts or on different designs."""
    for fault, kinds in (
        ("rollouts trained on", {each.trained for each in found.values()}),
        ("designs scored", {len(s) for each in found.values() for s in (each.before, each.after)}),
    ):
        if len(kinds) > 1:
            told = ", ".join(map(str, sorted(kinds)))
            raise RunError(
                f"an ablation needs equally many {fault} in every run, found {told}; a rollout "
                "that a machine failed at is none: remove that run and give the command again"
            )


def table(found: Outcomes, designs: Sequence[Design], *, reference: str) -> Table:
    """Return a table with two rows per arm, in per cent, and differences to the reference arm.

    The intervals are over seeds: the same seed with another arm is another training.
    """
    arms = dict.fromkeys(arm for arm, _ in found)
    seeds = dict.fromkeys(seed for _, seed in found)
    shown = Table(title="Overall average of coverage, %")
    for heading in ("arm", "designs"):
        shown.add_column(heading, no_wrap=True)
    for heading in (
        *(f"seed {seed}\n{when}" for seed in seeds for when in ("before", "after")),
        "mean\nafter",
        f"difference to\n{reference} (95 %, seeds)",
        "trained on",
        "calls",
    ):
        shown.add_column(heading, justify="right", no_wrap=True)
    for arm in arms:
        runs = [found[arm, seed] for seed in seeds]
        others = [found[reference, seed] for seed in seeds]
        for split, name in SPLITS.items():
            names = [each.design_id for each in designs if each.file.split == split]
            shown.add_row(arm, name, *_cells(runs, others, names), end_section=name == "held out")
    return shown


def _cells(runs: Sequence[Outcome], others: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    scores = [
        fmean(scored[name] for name in names) for run in runs for scored in (run.before, run.after)
    ]
    differences = [
        100 * fmean(run.after[name] - other.after[name] for name in names)
        for run, other in zip(runs, others, strict=True)
    ]
    return [
        *(f"{100 * score:.1f}" for score in (*scores, fmean(scores[1::2]))),
        "" if runs == others else told(interval(differences)),
        ", ".join(f"{run.trained:,}" for run in runs),
        ", ".join(f"{run.calls:,}" for run in runs),
    ]

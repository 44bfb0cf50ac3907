"""The results of a learning study's runs, read from their journals, and the comparison of arms.

All scores are held-out success in per cent. Differences between arms are paired by seed.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from rich.table import Table

from coevolve.commands.intervals import interval, told
from coevolve.environments.registry import environment_of
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import decode_as
from coevolve.journal.paging import whole_topic
from coevolve.journal.reader import run_reader
from protocols.config import RunConfig
from protocols.learning import Evaluation, GroupDiscarded, StepReport
from tests.bench.learning_shares import Shares, shares_of

MIDDLE = (5.0, 95.0)
"""Skills with an initial success between these have something to reinforce."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run."""

    scores: Mapping[int, float]
    """Policy version -> held-out success, %."""

    skills: Mapping[int, Mapping[str, float]]
    """Policy version -> skill -> share of the reached turns of the skill that passed, %."""

    rollouts: int
    """Number that the learner consumed, including discarded ones."""

    informative: float
    """Mean number of groups with a policy gradient per step."""

    movement: float
    """Objective's share of the weights' movement, mean over the steps, in [0, 1]."""

    returns: int
    """Number of times that the guard returned to an earlier version."""

    shares: Shares

    @property
    def start(self) -> float:
        """Return the success of version 0."""
        return self.scores[0]

    @property
    def final(self) -> float:
        """Return the success of the last version."""
        return self.scores[max(self.scores)]

    @property
    def best(self) -> float:
        """Return the highest success of any version."""
        return max(self.scores.values())

    @property
    def lowest(self) -> float:
        """Return the lowest success of any version after the start."""
        return min(score for version, score in self.scores.items() if version)

    @property
    def middle_gain(self) -> float:
        """Return the mean gain of the skills that start in the middle; NaN if there are none."""
        before, after = self.skills[0], self.skills[max(self.skills)]
        middle = [
            name
            for name, score in before.items()
            if MIDDLE[0] <= score <= MIDDLE[1] and name in after
        ]
        return fmean(after[name] - before[name] for name in middle) if middle else math.nan


Outcomes = Mapping[tuple[str, int], Outcome]
"""By arm and seed."""


async def outcome_of(folder: Path, config: RunConfig) -> Outcome | None:
    """Return the result of the run in ``folder``; None if it is not finished."""
    if not RunDirectory(folder).metrics.exists():
        return None
    reader = run_reader(folder)
    environment = environment_of(config)
    scored = environment.scored_tasks()
    asked = {task.task_id: task.skills for task in scored}
    scores: dict[int, float] = {}
    skills: dict[int, dict[str, float]] = {}
    async for record in whole_topic(reader, "evaluation"):
        made = decode_as(record, Evaluation)
        scores[made.version] = 100 * fmean(each.score for each in made.scores)
        skills[made.version] = by_skill(made, asked)
    if config.learner.steps not in scores:
        return None
    steps = [decode_as(r, StepReport) async for r in whole_topic(reader, "step_report")]
    discarded = [
        decode_as(r, GroupDiscarded).rollouts async for r in whole_topic(reader, "group_discarded")
    ]
    taken = [step for step in steps if step.returned is None]
    trained = sum(len(group.sequences) for step in taken for group in step.groups)
    return Outcome(
        scores=scores,
        skills=skills,
        rollouts=trained + sum(discarded),
        informative=fmean(step.metrics["groups/informative"] for step in taken),
        movement=fmean(step.metrics["source/objective/movement_share"] for step in taken),
        returns=len(steps) - len(taken),
        shares=await shares_of(reader, environment.labels(), scored),
    )


def by_skill(made: Evaluation, asked: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return, by skill, the share of its reached turns that passed, %."""
    passed: defaultdict[str, list[bool]] = defaultdict(list)
    for score in made.scores:
        for turn, skill in enumerate(asked[score.task_id][: score.turns_passed + 1]):
            passed[skill].append(turn < score.turns_passed)
    return {skill: 100 * fmean(turns) for skill, turns in sorted(passed.items())}


def arms_table(found: Outcomes, *, reference: str, title: str) -> Table:
    """Return the table of arms: scores, gains, and paired differences to ``reference``."""
    shown = Table(title=title)
    shown.add_column("arm", no_wrap=True)
    for heading in (
        "seeds",
        "start",
        "final: median\n(lowest, highest)",
        "gain (95 %)",
        f"minus {reference}\n(95 %, paired)",
        "middle skills\ngain",
        "lowest of any\nminus start",
        "best minus\nfinal",
        "rollouts",
        "groups with\ngradient",
        "movement by\nobjective",
        "returns",
    ):
        shown.add_column(heading, justify="right", no_wrap=True)
    for arm in dict.fromkeys(arm for arm, _ in found):
        shown.add_row(arm, *_cells(found, arm, reference))
    return shown


def _cells(found: Outcomes, arm: str, reference: str) -> list[str]:
    seeds = [seed for name, seed in found if name == arm]
    runs = [found[arm, seed] for seed in seeds]
    paired = [seed for seed in seeds if (reference, seed) in found]
    differences = [found[arm, seed].final - found[reference, seed].final for seed in paired]
    finals = sorted(run.final for run in runs)
    return [
        str(len(seeds)),
        f"{fmean(run.start for run in runs):.1f}",
        f"{median(finals):.1f} ({finals[0]:.1f}, {finals[-1]:.1f})",
        told(interval([run.final - run.start for run in runs])),
        "" if arm == reference or not differences else told(interval(differences)),
        told(interval([run.middle_gain for run in runs])),
        f"{min(run.lowest - run.start for run in runs):+.1f}",
        f"{max(run.best - run.final for run in runs):.1f}",
        f"{fmean(run.rollouts for run in runs):,.0f}",
        f"{fmean(run.informative for run in runs):.1f}",
        f"{100 * fmean(run.movement for run in runs):.0f} %",
        str(sum(run.returns for run in runs)),
    ]


def curves_table(found: Outcomes) -> Table:
    """Return the held-out success by version, one row per run."""
    versions = sorted({version for run in found.values() for version in run.scores})
    shown = Table(title="Held-out success, %, by policy version")
    shown.add_column("arm", no_wrap=True)
    for heading in ("seed", *map(str, versions)):
        shown.add_column(heading, justify="right", no_wrap=True)
    for (arm, seed), run in sorted(found.items()):
        cells = (f"{run.scores[v]:.1f}" if v in run.scores else "" for v in versions)
        shown.add_row(arm, str(seed), *cells)
    return shown

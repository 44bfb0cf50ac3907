"""The instance gap of an evaluation: success on tasks minus success on their instances.

Other names alone may make a task harder or easier, also where nothing can be memorized. So what a
policy memorized is the gap of trained tasks minus that of held-out tasks (`memorized`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

import msgspec

from coevolve.history.score import NORMAL
from protocols.learning import Evaluation, TaskScore
from protocols.tasks import instance_of

Side = Literal["held_out", "trained"]

SIDES: tuple[Side, ...] = ("held_out", "trained")


@dataclass(frozen=True, kw_only=True)
class InstanceGap:
    """Mean scores of one version on tasks and on instances of the same tasks."""

    given: float
    """Mean score on the tasks, usually in [0, 1]."""

    fresh: float
    """Mean score on their instances."""

    std_error: float
    """Standard error of `mean`, over the choice of tasks."""

    @property
    def mean(self) -> float:
        """Return the gap."""
        return self.given - self.fresh


@dataclass(frozen=True, kw_only=True)
class Memorized:
    """The gap of trained tasks minus that of held-out tasks."""

    mean: float
    std_error: float
    """Over the choice of both kinds of tasks."""

    @property
    def is_certain(self) -> bool:
        """Return whether the 95 % interval is above 0."""
        return self.mean > NORMAL * self.std_error

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} \N{PLUS-MINUS SIGN} {100 * self.std_error:.1f} points"


class TaskGap(msgspec.Struct, frozen=True, kw_only=True):
    mean: float
    """Mean over evaluations of the score on the task minus that on its instance."""

    evaluations: int


def task_gaps(evaluations: Iterable[Evaluation], tasks: Iterable[str]) -> dict[str, TaskGap]:
    """Return the gap of each of the trained tasks that was scored both ways, by task id."""
    found: dict[str, list[float]] = {task_id: [] for task_id in tasks}
    for evaluation in evaluations:
        for task_id, (given, fresh) in scored_twice(evaluation, evaluation.trained).items():
            if task_id in found:
                found[task_id].append(given - fresh)
    return {
        task_id: TaskGap(mean=fmean(gaps), evaluations=len(gaps))
        for task_id, gaps in found.items()
        if gaps
    }


def instance_gaps(evaluation: Evaluation) -> dict[Side, InstanceGap]:
    """Return the gap of each side with at least two tasks that were scored both ways."""
    trained = {score.task_id for score in evaluation.trained}
    given = {
        "held_out": [score for score in evaluation.scores if score.task_id not in trained],
        "trained": evaluation.trained,
    }
    gaps: dict[Side, InstanceGap] = {}
    for side in SIDES:
        if gap := _gap(scored_twice(evaluation, given[side])):
            gaps[side] = gap
    return gaps


def memorized(trained: InstanceGap, held_out: InstanceGap) -> Memorized:
    """Return the gap of trained tasks minus that of held-out ones, of the same version."""
    return Memorized(
        mean=trained.mean - held_out.mean,
        std_error=sqrt(trained.std_error**2 + held_out.std_error**2),
    )


def scored_twice(
    evaluation: Evaluation, given: Iterable[TaskScore]
) -> Mapping[str, tuple[float, float]]:
    """Return the score on a task and on its instance, by task id, where both are known."""
    scores = {score.task_id: score.score for score in given}
    fresh = [(instance_of(score.task_id)[0], score.score) for score in evaluation.instances]
    return {root: (scores[root], score) for root, score in fresh if root in scores}


def _gap(pairs: Mapping[str, tuple[float, float]]) -> InstanceGap | None:
    if len(pairs) < 2:
        return None
    return InstanceGap(
        given=fmean(given for given, _ in pairs.values()),
        fresh=fmean(fresh for _, fresh in pairs.values()),
        std_error=stdev(given - fresh for given, fresh in pairs.values()) / sqrt(len(pairs)),
    )

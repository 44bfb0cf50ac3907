"""The instance gap of an evaluation: success on tasks minus success on their instances."""

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from protocols.learning import Evaluation
from protocols.tasks import instance_of

NORMAL = 1.959964
"""Half the width of a 95 % interval, in standard errors."""


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


def instance_gap(evaluation: Evaluation) -> InstanceGap | None:
    """Return the gap over the tasks scored both ways; None if these are fewer than two."""
    given = {score.task_id: score.score for score in evaluation.scores}
    roots = [(instance_of(score.task_id)[0], score.score) for score in evaluation.instances]
    pairs = [(given[root], score) for root, score in roots if root in given]
    if len(pairs) < 2:
        return None
    return InstanceGap(
        given=fmean(task for task, _ in pairs),
        fresh=fmean(instance for _, instance in pairs),
        std_error=stdev(task - instance for task, instance in pairs) / sqrt(len(pairs)),
    )

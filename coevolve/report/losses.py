"""Losses on held-out tasks: the skills whose success fell beyond chance between scored versions."""

from collections.abc import Mapping
from dataclasses import dataclass

from coevolve.history.run_history import RunHistory
from coevolve.report.estimates import Estimate
from coevolve.report.sections.success import held_out_histories


@dataclass(frozen=True)
class Scored:
    """The held-out success of a skill at a policy version."""

    version: int
    success: Estimate

    @property
    def text(self) -> str:
        """The counts and the version as ``54/59 at version 20``."""
        return f"{self.success.count}/{self.success.trials} at version {self.version}"


@dataclass(frozen=True)
class Loss:
    """The largest fall of a skill beyond chance: the two intervals (95 %) do not overlap."""

    skill: str
    high: Scored
    low: Scored
    newest: Scored

    @property
    def points(self) -> float:
        """The size of the fall, in (0, 100]."""
        return 100 * (self.high.success.share - self.low.success.share)

    @property
    def stays(self) -> bool:
        """Whether the newest version is still below the high, beyond chance."""
        return self.newest.success.is_below(self.high.success)


def losses(data: RunHistory) -> dict[str, Loss]:
    """Return the largest fall of each skill that ever fell, by skill, the largest first.

    A version is compared with the earlier one whose interval has the highest lower end.
    """
    found: list[Loss] = []
    for skill, history in held_out_histories(data).items():
        scored = [Scored(version, success) for version, success in history]
        best, high = None, scored[0]
        for each in scored[1:]:
            if each.success.is_below(high.success):
                fall = Loss(skill, high, each, scored[-1])
                best = fall if best is None else max(best, fall, key=lambda loss: loss.points)
            high = max(high, each, key=lambda point: point.success.interval[0])
        if best:
            found.append(best)
    found.sort(key=lambda loss: (-loss.points, loss.skill))
    return {loss.skill: loss for loss in found}


def largest_fall(scores: Mapping[int, float]) -> tuple[int, int] | None:
    """Return the versions of the largest fall of a score, high and low; None if it never fell."""
    found: tuple[int, int] | None = None
    lost, high = 0.0, min(scores, default=0)
    for version in sorted(scores):
        if scores[high] - scores[version] > lost:
            lost, found = scores[high] - scores[version], (high, version)
        high = max(high, version, key=lambda each: scores[each])
    return found

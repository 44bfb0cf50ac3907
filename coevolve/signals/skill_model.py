"""What the policy can do, skill by skill: a state-space model of item responses, as a pure fold.

A skill, what one turn of a task needs, has *parts* that other skills share, such as tools and pairs
of tools; the environment names them. The policy passes the turn with probability p, the product of
sigma(theta) over the parts, because it needs all of them. Each theta is a random walk in policy
versions. A group moves the thetas of its parts by one step of an extended Kalman filter with a
diagonal covariance (the family of dynamic item-response models; Elo ratings are its limit with
constant gain). So it foresees the success of tasks that were never visited, it pools evidence over
all tasks that share a part, and a visit costs O(parts of the task) however many tasks there are.

Losses are found by a sequential test for each part (Page 1954): a cumulative sum of log-likelihood
ratios, of a part that fell by `LOSS` against the same part as it was. "As it was" is a slow average
of the filter's own belief, which would follow a loss before the test can see it. The test of a part
begins when its belief is settled.

The first `MAX_NAMES` skills, and as many parts, are remembered; later ones are left out.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from protocols.evolution import GroupSummary, SkillCount

MAX_NAMES = 10_000

MEAN, VARIANCE = 0.5, 4.0
"""Of the logit of a part that was never visited."""

LEAST_VARIANCE = 0.02
WALK = 0.08**2
"""Variance that each policy version adds."""

MOST_LOGIT = 6.0
ALIKE = 0.3
"""Correlation of the rollouts of one group beyond their common rate."""

LOSS = 2.0
"""Fall of a logit that the test looks for."""

LIMIT = 5.0
"""Cumulative log-likelihood ratio that raises an alarm."""

SETTLED = 0.5
"""Variance below which the test of a part begins."""

SLOW = 0.05
"""Weight of each visit in the slow average."""

PartsOf = Callable[[str], Sequence[str]]
"""Returns the parts of a skill, by their names; pure."""


def alone(skill: str) -> Sequence[str]:
    """Return the skill as its only part."""
    return (skill,)


class SkillSpace(NamedTuple):
    """What is known of skills before any task is visited."""

    parts_of: PartsOf = alone

    cells: tuple[str, ...] = ()
    """Skills that tasks may practise, visited or not; empty if the environment names none."""

    imitates: bool = False
    """Whether the learner imitates references."""

    def left(self, success: float) -> float:
        """Return how much is left to learn, 0..1, where attempts succeed at this rate."""
        return left_to_learn(success, imitates=self.imitates)


NO_SPACE = SkillSpace()


def left_to_learn(success: float, *, imitates: bool) -> float:
    """Return how much a task teaches, 0..1, whose attempts succeed at this rate.

    That is 1 - p where references are imitated, and 4 p (1 - p), in proportion to the variance of
    the rewards, where only rewards teach.
    """
    return (1 - success) * (1 if imitates else 4 * success)


class Belief(msgspec.Struct, array_like=True):
    """What is believed of one part."""

    mean: float = MEAN
    variance: float = VARIANCE
    version: int = 0
    """The newest policy version that was seen at it."""

    reference: float | None = None
    """Slow average of the mean; None until the belief is settled."""

    sum: float = 0.0
    """The cumulative sum of the test, 0 to `LIMIT`."""

    visits: float = 0.0
    """Visits so far, decayed to visit number ``at`` of all."""

    at: int = 0


class SkillsState(msgspec.Struct):
    """What `SkillModel` remembers."""

    parts: dict[str, Belief] = msgspec.field(default_factory=dict[str, Belief])
    skills: list[str] = msgspec.field(default_factory=list[str])
    """Every skill that was visited, oldest first."""

    total: Belief = msgspec.field(default_factory=Belief)
    """The visits of all parts together."""

    visits: int = 0


class SkillModel:
    """The beliefs about all parts."""

    lost: dict[str, float]
    """Parts of which the newest visit showed a loss -> their success rates before it."""

    def __init__(self, space: SkillSpace, half_life: float) -> None:
        """Start empty; evidence counts half after ``half_life`` visits."""
        self.space = space
        self._of_cells = dict.fromkeys(
            part for cell in space.cells for part in space.parts_of(cell)
        )
        self._half_life = half_life
        self.state = SkillsState()

    @property
    def state(self) -> SkillsState:
        """What it remembers."""
        return self._state

    @state.setter
    def state(self, state: SkillsState) -> None:
        self._state = state
        self._known = set(state.skills)
        self.names = list(self._of_cells | dict.fromkeys(state.parts))
        self.lost = {}

    def add(self, visit: GroupSummary) -> None:
        """Learn from the skills of a visit."""
        self.lost = {}
        self._state.visits += 1
        for each in visit.skills:
            if each.skill not in self._known and len(self._known) < MAX_NAMES:
                self._known.add(each.skill)
                self._state.skills.append(each.skill)
            self._learn(each, visit.version_max)

    @property
    def skills(self) -> Sequence[str]:
        """The skills that tasks may practise; those of visited tasks if nobody names them."""
        return self.space.cells or self._state.skills

    def chance(self, skill: str, rng: np.random.Generator) -> float:
        """Return a draw from the posterior of the rate at which the policy passes a skill."""
        beliefs = [self._state.parts.get(part) or Belief() for part in self.space.parts_of(skill)]
        return math.prod(_sigma(rng.normal(b.mean, math.sqrt(b.variance))) for b in beliefs)

    def share(self, part: str) -> float:
        """Return the part's decayed visits relative to an equal share; 1 if all are alike."""
        belief, total = self._state.parts.get(part), self._decayed(self._state.total)
        return self._decayed(belief) * len(self.names) / total if belief else 0.0

    def _decayed(self, belief: Belief) -> float:
        return belief.visits * 0.5 ** ((self._state.visits - belief.at) / self._half_life)

    def _learn(self, found: SkillCount, version: int) -> None:
        parts = self._beliefs(found.skill, version)
        if not parts:
            return
        rates_P = np.array([_sigma(belief.mean) for belief in parts.values()])
        variances_P = np.array([belief.variance for belief in parts.values()])
        p = _bounded(float(rates_P.prod()))
        slopes_P = p * (1 - rates_P)
        noise = p * (1 - p) / found.attempts * _correlated(found.attempts)
        total = float((slopes_P**2 * variances_P).sum()) + noise
        gains_P = variances_P * slopes_P / total
        residual = found.passed / found.attempts - p
        for belief, gain, slope in zip(parts.values(), gains_P, slopes_P, strict=True):
            mean = belief.mean + float(gain) * residual
            belief.mean = min(max(mean, -MOST_LOGIT), MOST_LOGIT)
            belief.variance = max(belief.variance * float(1 - gain * slope), LEAST_VARIANCE)
        self._test(parts, found)

    def _test(self, parts: dict[str, Belief], found: SkillCount) -> None:
        """Weigh a result for and against the loss of each part."""
        was = {name: _reference(belief) for name, belief in parts.items()}
        rate = _bounded(math.prod(map(_sigma, was.values())))
        for name, belief in parts.items():
            if belief.reference is None:
                belief.reference = belief.mean if belief.variance < SETTLED else None
                continue
            fallen = _bounded(rate * _sigma(was[name] - LOSS) / _sigma(was[name]))
            passed, failed = found.passed, found.attempts - found.passed
            ratio = passed * math.log(fallen / rate) + failed * math.log((1 - fallen) / (1 - rate))
            belief.sum = max(0.0, belief.sum + ratio / _correlated(found.attempts))
            belief.reference += SLOW * (belief.mean - belief.reference)
            if belief.sum > LIMIT:
                self.lost[name] = _sigma(belief.reference)
                belief.sum, belief.reference = 0.0, None
                belief.variance = min(VARIANCE, belief.variance + 1.0)  # from now on, trust data

    def _beliefs(self, skill: str, version: int) -> dict[str, Belief]:
        """Return the beliefs about a skill's parts, walked on to a version, and count the visit."""
        state, found = self._state, dict[str, Belief]()
        for part in dict.fromkeys(self.space.parts_of(skill)):
            if part not in state.parts:
                if len(state.parts) >= MAX_NAMES:
                    continue
                state.parts[part] = Belief(version=version)
                if part not in self._of_cells:
                    self.names.append(part)
            belief = found[part] = state.parts[part]
            versions = max(0, version - belief.version)
            belief.variance = min(VARIANCE, belief.variance + WALK * versions)
            belief.version = max(version, belief.version)
            for each in (belief, state.total):
                each.visits, each.at = self._decayed(each) + 1.0, state.visits
        return found


def _sigma(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def _bounded(rate: float) -> float:
    """Return a rate that leaves every result possible."""
    return min(max(rate, 0.02), 0.98)


def _correlated(attempts: int) -> float:
    """Return how many attempts of a group tell as much as one that is alone."""
    return 1 + (attempts - 1) * ALIKE


def _reference(belief: Belief) -> float:
    return belief.mean if belief.reference is None else belief.reference

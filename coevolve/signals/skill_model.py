"""What the policy can do, skill by skill: a state-space model of item responses, as a pure fold.

A skill, what one turn of a task needs, has *parts* that other skills share, such as tools and pairs
of tools; the environment names them. The policy passes the turn with probability p, the product of
sigma(theta) over the parts, because it needs all of them. Each theta is a random walk in policy
versions. A group moves the thetas of its parts by one step of an extended Kalman filter with a
diagonal covariance (the family of dynamic item-response models; Elo ratings are its limit with
constant gain). So it foresees the success of tasks that were never visited, it pools evidence over
all tasks that share a part, and a visit costs O(parts of the task) however many tasks there are.

Losses are found by a sequential test for each part (Page 1954): a cumulative sum of log-likelihood
ratios, of a part that fell by `LOSS` against the same part as it was. "As it was" is the filter's
belief when the sum was last 0, with its variance: it rises with the policy, and does not follow a
loss before the test can see it. A group counts the less, the more of its result the doubt about its
parts may explain, so that a new part's failures are not held against the known ones beside it. A
loss that is found clears the other parts of its turn.

The first `MAX_NAMES` skills, and as many parts, are remembered; later ones are left out.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocols.evolution import GroupSummary, SkillCount

MAX_NAMES = 10_000

MEAN, VARIANCE = 0.5, 4.0
"""Of the logit of a part that was never visited."""

LEAST_VARIANCE = 0.02
WALK = 0.08**2
"""Variance that each policy version adds."""

SETTLED = 1.5
"""Variance up to which a part is tested."""

MOST_LOGIT = 6.0
ALIKE = 0.3
"""Correlation of the rollouts of one group beyond their common rate."""

LOSS = 2.0
"""Fall of a logit that the test looks for."""

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

    tools: tuple[str, ...] = ()
    """Tools, each of which may be a skill alone; they count where no cells are named."""

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

    reference: tuple[float, float] = (MEAN, VARIANCE)
    """Mean and variance when the test last had no evidence of a loss."""

    sum: float = 0.0
    """The cumulative sum of the test, 0 or more."""

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

    def __init__(self, space: SkillSpace, half_life: float, limit: float) -> None:
        """Start empty.

        Evidence that a part is rare counts half after ``half_life`` visits. A test whose sum
        exceeds ``limit`` has found a loss.
        """
        self.space = space
        self._of_cells = dict.fromkeys(
            part for cell in space.cells for part in space.parts_of(cell)
        )
        self._half_life = half_life
        self._limit = limit
        self.state = SkillsState()

    @property
    def state(self) -> SkillsState:
        """What it remembers."""
        return self._state

    @state.setter
    def state(self, state: SkillsState) -> None:
        self._state = state
        self._known = set(state.skills)
        self._skills = [*dict.fromkeys((*self.space.tools, *state.skills))]
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
                if each.skill not in self.space.tools:
                    self._skills.append(each.skill)
            self._learn(each, visit.version_max)

    @property
    def skills(self) -> Sequence[str]:
        """The skills that tasks may practise; tools and those of visited tasks if none is named."""
        return self.space.cells or self._skills

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
        self._test(parts, found)
        beliefs = [(belief.mean, belief.variance) for belief in parts.values()]
        expected = _expected(beliefs, found.attempts)
        gains_P = expected.variances * expected.slopes / expected.variance
        residual = found.passed / found.attempts - expected.rate
        for belief, gain, slope in zip(parts.values(), gains_P, expected.slopes, strict=True):
            mean = belief.mean + float(gain) * residual
            belief.mean = min(max(mean, -MOST_LOGIT), MOST_LOGIT)
            belief.variance = max(belief.variance * float(1 - gain * slope), LEAST_VARIANCE)
            if not belief.sum:
                belief.reference = belief.mean, belief.variance

    def _test(self, parts: dict[str, Belief], found: SkillCount) -> None:
        """Weigh a result for and against the loss of each part."""
        expected = _expected([belief.reference for belief in parts.values()], found.attempts)
        rate, failed = expected.rate, found.attempts - found.passed
        weight = rate * (1 - rate) / found.attempts / expected.variance
        for belief in parts.values():
            if belief.reference[1] > SETTLED:
                continue
            was = _sigma(belief.reference[0])
            fallen = _bounded(rate * _sigma(belief.reference[0] - LOSS) / was)
            passing, failing = math.log(fallen / rate), math.log((1 - fallen) / (1 - rate))
            ratio = found.passed * passing + failed * failing
            belief.sum = max(0.0, belief.sum + weight * ratio)
        name, worst = max(parts.items(), key=lambda item: item[1].sum)
        if worst.sum > self._limit:
            self.lost[name] = _sigma(worst.reference[0])
            worst.variance = min(VARIANCE, worst.variance + 1.0)  # from now on, trust data
            for belief in parts.values():
                belief.sum = 0.0  # this loss explains what is held against the others

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


class _Expected(NamedTuple):
    """What beliefs about some parts say of the share of attempts that pass."""

    rate: float
    variance: float
    """Of the share, by chance and by doubt about the parts."""

    slopes: NDArray[np.float64]
    """Change of the rate with each part's logit."""

    variances: NDArray[np.float64]


def _expected(beliefs: Sequence[tuple[float, float]], attempts: int) -> _Expected:
    """Return what follows from the (mean, variance) of each part's logit."""
    rates_P = np.array([_sigma(mean) for mean, _ in beliefs])
    variances_P = np.array([variance for _, variance in beliefs])
    rate = _bounded(float(rates_P.prod()))
    slopes_P = rate * (1 - rates_P)
    noise = rate * (1 - rate) / attempts * (1 + (attempts - 1) * ALIKE)
    doubt = float((slopes_P**2 * variances_P).sum())
    return _Expected(rate, doubt + noise, slopes_P, variances_P)


def _sigma(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def _bounded(rate: float) -> float:
    """Return a rate that leaves every result possible."""
    return min(max(rate, 0.02), 0.98)

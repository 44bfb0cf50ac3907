"""The guard: detects a policy that loses abilities, and selects the version to return to.

The evaluator scores every ``learner.guard.every``-th version on canary tasks, which are neither
trained on nor held out. The guard compares each version with the best version so far, task by task.
It is a fold over the journal, so a learner that was killed reaches the same judgement. A version
has regressed if two conditions hold. The mean score falls by more than ``max_loss``. And a
one-sided exact sign test over the canaries that differ, which asks whether a version lost more
canaries than it won, has a p value of at most its part of ``chance``.

The best of many versions is partly the luckiest one, so a test against it alone would find losses
where nothing changed. But it is one of the earlier versions, and a test against a given one of them
is exact. So ``chance`` is divided by the number of comparisons of the run, and by the number of
versions that may be the best one (`LearnerConfig.guard_chance`): if no version is worse than an
earlier one, the probability of any alarm in the whole run is at most ``chance``.
``python -m tests.bench guard`` measures that, and which losses are found.

The guard skips a version if infrastructure failures left more than one canary in ten unscored.

After a return to version b at step k, the versions between b and k are abandoned: the guard does
not compare with them, and the learner does not train on their rollouts.
"""

from collections.abc import Mapping, Sequence
from math import comb

import msgspec

from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import Snapshots
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learner_config import LearnerConfig
from protocols.learning import CanaryScores, PolicyRegressed, StepReport

TOPICS = topics_of(CanaryScores, PolicyRegressed, StepReport)
"""Topics of the guard's fold."""

MOST_BEST = 16
"""Versions that were the best one, of which the guard knows the scores."""

SAME = 1e-9
"""Scores of one task that differ by less than this count as equal."""


class GuardState(msgspec.Struct):
    """What `Guard` remembers."""

    scores: dict[int, dict[str, float]] = msgspec.field(default_factory=dict[int, dict[str, float]])
    """Version -> score by canary, of the newest version and of the last `MOST_BEST` that were
    the best one when they came; without abandoned versions."""

    heard: set[int] = msgspec.field(default_factory=set[int])
    """Versions that the evaluator has finished."""

    judged: int = -1
    """Newest version that was recorded as regressed."""

    abandoned: set[int] = msgspec.field(default_factory=set[int])
    returned_to: set[int] = msgspec.field(default_factory=set[int])
    rate_factor: float = 1.0
    """Current factor on all learning rates."""


class Guard:
    """Folds canary scores and detects regressions; see the module.

    It is a `coevolve.journal.snapshots.Piece`.
    """

    keeps = ()
    settings = None

    def __init__(self, config: LearnerConfig) -> None:
        self._settings = config.guard
        self._chance = config.guard_chance
        """Number of versions that may be the best -> significance level of a comparison with it."""

        self.state = GuardState()

    @property
    def pieces(self) -> Sequence[object]:
        """Return itself: it is a whole state."""
        return (self,)

    @property
    def rate_factor(self) -> float:
        """Return the current factor on all learning rates."""
        return self.state.rate_factor

    @property
    def abandoned(self) -> frozenset[int]:
        """Return the abandoned versions."""
        return frozenset(self.state.abandoned)

    @property
    def best(self) -> int | None:
        """Return the version with the highest mean, the newest of equals; None without scores."""
        if not self.state.scores:
            return None
        return max(
            self.state.scores, key=lambda version: (_mean(self.state.scores[version]), version)
        )

    @property
    def needed(self) -> frozenset[int]:
        """Return the versions whose weights must stay: the best one, and those returned to."""
        best = self.best
        return frozenset(self.state.returned_to | (set() if best is None else {best}))

    def is_scored(self, version: int) -> bool:
        """Return whether the evaluator has finished a version, with or without a usable score."""
        return version in self.state.heard

    def fold(self, message: Message) -> None:
        """Add the journal's next record; ignores other message types."""
        match message:
            case CanaryScores(version=version, scores=scores):
                self.state.heard.add(version)
                if message.is_comparable and version not in self.state.abandoned:
                    self.state.scores[version] = {each.task_id: each.score for each in scores}
                    self._forget_the_passed()
            case PolicyRegressed(version=version):
                self.state.judged = max(self.state.judged, version)
            case StepReport(step=step, returned=returned) if returned is not None:
                self._fold_return(step, returned.to_version)
                self.state.rate_factor = returned.rate_factor
            case _:
                pass

    def loss(self) -> PolicyRegressed | None:
        """Return the regression of the newest scored version; None if there is no new one."""
        settings = self._settings
        newest, best = max(self.state.scores, default=-1), self.best
        if settings.action == "none" or best is None or newest <= max(self.state.judged, best):
            return None
        common = self.state.scores[newest].keys() & self.state.scores[best].keys()
        before = {task: self.state.scores[best][task] for task in common}
        now = {task: self.state.scores[newest][task] for task in common}
        if not common or _mean(before) - _mean(now) <= settings.max_loss:
            return None
        lost = sum(now[task] < before[task] - SAME for task in common)
        gained = sum(now[task] > before[task] + SAME for task in common)
        chance = sign_test(lost, gained)
        if chance > self._chance(self._references(newest)):
            return None
        return PolicyRegressed(
            version=newest,
            score=_mean(now),
            best_version=best,
            best_score=_mean(before),
            lost=lost,
            gained=gained,
            canaries=len(common),
            chance=chance,
            action=settings.action,
        )

    def _references(self, version: int) -> int:
        """Return how many versions before ``version`` may have been the best one."""
        return sum(each < version for each in self.state.heard - self.state.abandoned)

    def _forget_the_passed(self) -> None:
        """Forget the scores of versions that can be neither the newest nor the best any more.

        A return abandons the newest versions, so the best one before it may be the best again.
        """
        best: list[int] = []
        for version in sorted(self.state.scores):
            if not best or _mean(self.state.scores[version]) >= _mean(self.state.scores[best[-1]]):
                best.append(version)
        for version in self.state.scores.keys() - {*best[-MOST_BEST:], max(self.state.scores)}:
            del self.state.scores[version]

    def _fold_return(self, step: int, to_version: int) -> None:
        left = range(to_version + 1, step)
        self.state.abandoned.update(left)
        for version in left:
            self.state.scores.pop(version, None)
        self.state.returned_to.add(to_version)


def guard_snapshots(reader: Reader, config: LearnerConfig) -> Snapshots[Guard]:
    return Snapshots(reader, "learner's guard", TOPICS, lambda: Guard(config))


def sign_test(lost: int, gained: int) -> float:
    """Return the probability of at least ``lost`` of ``lost + gained`` at even odds."""
    count = lost + gained
    return sum(comb(count, each) for each in range(lost, count + 1)) / 2**count


def _mean(scores: Mapping[str, float]) -> float:
    return sum(scores.values()) / len(scores)

"""The guard: notices a policy that loses what it could do, and says what to go back to.

The evaluator scores every ``learner.guard.every``-th version on canary tasks, which are neither
trained on nor held out. The guard compares each with the best version so far, task by task. It is
a fold over the journal, so a learner that was killed judges alike. Two conditions make a loss: the
mean score falls by more than ``max_loss``, and a one-sided exact sign test over the canaries that
differ has a p value of at most ``chance``, divided by the number of comparisons of the run. The
test asks whether a version lost more canaries than it won. The best of many versions is partly the
luckiest of them, so without the division one run in five of equally good versions would be found to
have lost (by simulation: 64 canaries, all drawn anew each time, 12 comparisons); with it, it is one
or two in a hundred.

A version of which machines' failures left more than one canary in ten unscored is passed over.

After a return to version b at step k the versions between b and k are abandoned: nothing is
compared with them, and no rollout that they wrote is trained on.
"""

from collections.abc import Mapping
from math import comb

from coevolve.journal.codec import topics_of
from protocols.journal import Message
from protocols.learner_config import LearnerConfig
from protocols.learning import CanaryScores, PolicyRegressed, StepReport

TOPICS = topics_of(CanaryScores, PolicyRegressed, StepReport)
"""What a guard is folded from."""

SAME = 1e-9
"""Scores of one task that differ by less are equal."""


class Guard:
    """Folds canary scores; see the module."""

    def __init__(self, config: LearnerConfig) -> None:
        self._settings = config.guard
        self._chance = config.guard_chance
        self._scores: dict[int, dict[str, float]] = {}
        """Version -> score by canary, abandoned versions left out."""

        self._heard: set[int] = set()
        """Versions that the evaluator is done with."""

        self._judged = -1
        """Newest version that was found to have lost, and was recorded."""

        self._abandoned: set[int] = set()
        self._returned_to: set[int] = set()
        self.rate_factor = 1.0
        """What all learning rates are multiplied with by now."""

    @property
    def abandoned(self) -> frozenset[int]:
        """Return the versions that were left."""
        return frozenset(self._abandoned)

    @property
    def best(self) -> int | None:
        """Return the version of the highest mean, the newest of equals; None before any score."""
        if not self._scores:
            return None
        return max(self._scores, key=lambda version: (_mean(self._scores[version]), version))

    @property
    def needed(self) -> frozenset[int]:
        """Return the versions whose weights have to stay: the best, and those returned to."""
        best = self.best
        return frozenset(self._returned_to | (set() if best is None else {best}))

    def is_scored(self, version: int) -> bool:
        """Return whether the evaluator is done with a version, whatever came of it."""
        return version in self._heard

    def fold(self, message: Message) -> None:
        """Take in the journal's next record; other kinds are passed over."""
        match message:
            case CanaryScores(version=version, scores=scores):
                self._heard.add(version)
                if message.is_comparable and version not in self._abandoned:
                    self._scores[version] = {each.task_id: each.score for each in scores}
            case PolicyRegressed(version=version):
                self._judged = max(self._judged, version)
            case StepReport(step=step, returned=returned) if returned is not None:
                self._returned(step, returned.to_version)
                self.rate_factor = returned.rate_factor
            case _:
                pass

    def loss(self) -> PolicyRegressed | None:
        """Return what the newest scored version has lost; None for nothing, or nothing new."""
        settings = self._settings
        newest, best = max(self._scores, default=-1), self.best
        if settings.action == "none" or best is None or newest <= max(self._judged, best):
            return None
        common = self._scores[newest].keys() & self._scores[best].keys()
        before = {task: self._scores[best][task] for task in common}
        now = {task: self._scores[newest][task] for task in common}
        if not common or _mean(before) - _mean(now) <= settings.max_loss:
            return None
        lost = sum(now[task] < before[task] - SAME for task in common)
        gained = sum(now[task] > before[task] + SAME for task in common)
        chance = sign_test(lost, gained)
        if chance > self._chance:
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

    def _returned(self, step: int, to_version: int) -> None:
        left = range(to_version + 1, step)
        self._abandoned.update(left)
        for version in left:
            self._scores.pop(version, None)
        self._returned_to.add(to_version)


def sign_test(lost: int, gained: int) -> float:
    """Return the probability of at least ``lost`` of ``lost + gained`` if both were as likely."""
    count = lost + gained
    return sum(comb(count, each) for each in range(lost, count + 1)) / 2**count


def _mean(scores: Mapping[str, float]) -> float:
    return sum(scores.values()) / len(scores)

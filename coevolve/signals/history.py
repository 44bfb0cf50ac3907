"""What the rules look back on: a fold over visits, so it is rebuilt by reading them again.

Visits in which every rollout failed leave no trace.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coevolve.signals.probability import SuccessCount
from protocols.evolution import GroupSummary, PatternKind
from protocols.evolution_config import SignalsConfig

PatternKey = tuple[PatternKind, str]


class Outcome(NamedTuple):
    """How one visit of a task went."""

    version_min: int
    version_max: int
    tally: SuccessCount


class Share(NamedTuple):
    """How much of the policy's doing a pattern is, with old visits counting less.

    Each visit counts as one observation, however many calls it has: the rollouts of a group are
    attempts at one task and so do much the same. Taking each call for an observation would call
    patterns rare with confidence after a handful of tasks.
    """

    seen: float
    """Sum over visits of the pattern's share of the visit's patterns of its kind."""

    visits: float
    """Visits with any pattern of the kind; both are weighted by the visits' age."""


class TaskHistory:
    """The visits of one task within the window, the newest included."""

    def __init__(self, window: int) -> None:
        self._outcomes: deque[Outcome] = deque(maxlen=window + 1)

    def add(self, outcome: Outcome) -> None:
        """Take in a further visit."""
        self._outcomes.append(outcome)

    @property
    def newest(self) -> Outcome:
        """Return the visit that was taken in last."""
        return self._outcomes[-1]

    def earlier(self) -> Sequence[Outcome]:
        """Return the visits before the newest, oldest first, at most the window."""
        return tuple(self._outcomes)[:-1]

    def before_and_now(self) -> tuple[SuccessCount, SuccessCount]:
        """Return the pooled visits of older versions, and those of the newest visit's versions.

        Visits overlap where they share a policy version; "before" ends where "now" begins, so no
        version is compared with itself. Either is 0 of 0 where there is none.
        """
        now = self.newest
        return (
            _pooled(each.tally for each in self._outcomes if each.version_max < now.version_min),
            _pooled(
                each.tally
                for each in self._outcomes
                if each.version_max >= now.version_min and each.version_min <= now.version_max
            ),
        )


class History:
    """All visits so far, as far as a rule looks at them."""

    def __init__(self, config: SignalsConfig, tools: Sequence[str]) -> None:
        """Start empty; ``tools`` are the policy's tools, called or not."""
        self.tools = tuple(sorted(set(tools)))
        self.tasks: dict[str, TaskHistory] = {}
        self.surprise: dict[str, float] = {}
        """Of each task's newest visit."""

        self.totals: Counter[PatternKey] = Counter()
        """How often each pattern occurred, undecayed; under the empty pattern all of a kind."""

        self.last_evidence: dict[PatternKey, tuple[int, ...]] = {}
        """Rollouts of the newest visit in which the tool or other pattern occurred."""

        self._window = config.window
        self._shares = _Decaying(config.half_life_visits)

    def add(self, visit: GroupSummary) -> None:
        """Take in a further visit."""
        if visit.rollouts == 0:
            return
        task = self.tasks.get(visit.task_id)
        if task is None:
            task = self.tasks[visit.task_id] = TaskHistory(self._window)
        tally = SuccessCount(visit.successes, visit.rollouts)
        task.add(Outcome(visit.version_min, visit.version_max, tally))
        self.surprise[visit.task_id] = visit.surprise
        self._add_patterns(visit)

    def share(self, kind: PatternKind, pattern: str) -> Share:
        """Return the decayed share of a pattern; 0 where it never occurred."""
        return Share(self._shares.weight((kind, pattern)), self._shares.weight((kind, "")))

    def _add_patterns(self, visit: GroupSummary) -> None:
        of_kind: Counter[PatternKind] = Counter()
        for each in visit.patterns:
            of_kind[each.kind] += each.count
        self._shares.tick()
        for kind, count in of_kind.items():
            self.totals[kind, ""] += count
            self._shares.add((kind, ""), 1.0)
        for each in visit.patterns:
            key = (each.kind, each.pattern)
            self.totals[key] += each.count
            self.last_evidence[key] = visit.evidence
            self._shares.add(key, each.count / of_kind[each.kind])


class _Decaying:
    """Weights that halve every so many ticks, kept at their age and decayed when looked at."""

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._now = 0
        self._weights: dict[PatternKey, tuple[float, int]] = {}

    def tick(self) -> None:
        self._now += 1

    def add(self, key: PatternKey, amount: float) -> None:
        self._weights[key] = (self.weight(key) + amount, self._now)

    def weight(self, key: PatternKey) -> float:
        weight, at = self._weights.get(key, (0.0, self._now))
        return weight * 0.5 ** ((self._now - at) / self._half_life)


def _pooled(tallies: Iterable[SuccessCount]) -> SuccessCount:
    successes = rollouts = 0
    for tally in tallies:
        successes += tally.successes
        rollouts += tally.rollouts
    return SuccessCount(successes, rollouts)

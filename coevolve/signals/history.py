"""The history that the rules use: a fold over group summaries (visits), rebuilt by reading them.

Visits in which every rollout was an infrastructure failure are ignored. The memory is bounded
however long a run lasts: by ``most_tasks`` tasks that were visited last, and by `MOST_PATTERNS`
patterns that occurred last. A task that is visited again after that many others, and a pattern that
occurs again, counts as new.
"""

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from coevolve.ordered import Ranked
from coevolve.signals.probability import SuccessCount, same_rate
from protocols.evolution import GroupSummary, PatternKind
from protocols.evolution_config import SignalsConfig

PatternKey = tuple[PatternKind, str]

MOST_PATTERNS = 10_000
"""Patterns that are remembered, of all kinds; each takes about 0.5 kB."""

PATTERNS_FORGOTTEN = 1000
"""So many patterns are forgotten at a time, those that have not occurred for longest."""


class Outcome(NamedTuple):
    """The result of one visit of a task."""

    version_min: int
    version_max: int
    tally: SuccessCount


class Share(NamedTuple):
    """A pattern's share of the policy's behaviour, with lower weights for old visits.

    Each visit counts as one observation, however many calls it has, because the rollouts of a group
    attempt one task and behave similarly. If each call were an observation, patterns would become
    rare with confidence after a handful of tasks.
    """

    seen: float
    """Sum over visits of the pattern's share among the visit's patterns of its kind."""

    visits: float
    """Number of visits with any pattern of the kind. Both sums weight visits by age."""


class TaskHistory:
    """The visits of one task within the window, including the newest."""

    def __init__(self, window: int) -> None:
        self._outcomes: deque[Outcome] = deque(maxlen=window + 1)
        self.solved: tuple[int, ...] = ()
        """Rollouts of the newest visit in which some succeeded."""

    def add(self, outcome: Outcome) -> None:
        """Add a further visit."""
        self._outcomes.append(outcome)

    def outcomes(self) -> list[Outcome]:
        """Return all visits within the window, oldest first."""
        return list(self._outcomes)

    @property
    def newest(self) -> Outcome:
        """Return the newest visit."""
        return self._outcomes[-1]

    def earlier(self) -> Sequence[Outcome]:
        """Return the visits before the newest, oldest first, at most as many as the window."""
        return tuple(self._outcomes)[:-1]

    def before_and_now(self) -> tuple[SuccessCount, SuccessCount]:
        """Return the pooled visits of older versions, and those of the newest visit's versions.

        Visits overlap if they share a policy version. "Before" ends where "now" begins, so no
        version is compared with itself. Either is 0 of 0 if it has no visits.
        """
        now = self.newest
        return (
            _pool(each.tally for each in self._outcomes if each.version_max < now.version_min),
            _pool(
                each.tally
                for each in self._outcomes
                if each.version_max >= now.version_min and each.version_min <= now.version_max
            ),
        )


class VisitedState(msgspec.Struct, array_like=True):
    """What is remembered of a task."""

    task_id: str
    outcomes: list[Outcome]
    surprise: float
    p_value: float | None
    solved: tuple[int, ...]


class PatternState(msgspec.Struct, array_like=True):
    """What is remembered of a pattern."""

    kind: PatternKind
    pattern: str
    total: int
    evidence: tuple[int, ...] | None
    """None for the empty pattern."""

    weight: float
    at: int
    """The visit to which ``weight`` has decayed."""


class HistoryState(msgspec.Struct):
    """The content of `History`."""

    tasks: list[VisitedState]
    """The task that was visited last is last."""

    patterns: list[PatternState]
    """In the order in which they occurred first."""

    visits: int


class History:
    """The state of all visits so far that the rules need."""

    def __init__(self, config: SignalsConfig, tools: Sequence[str], most_tasks: int) -> None:
        """Start empty; ``tools`` are all tools of the policy, called or not.

        A task that is remembered takes about 3 kB with 10 visits.
        """
        self.tools = tuple(sorted(set(tools)))
        self.tasks: OrderedDict[str, TaskHistory] = OrderedDict()
        """Histories by task; the task that was visited last is last."""

        self.surprise: Ranked[str, float] = Ranked()
        """Surprise of each task's newest visit."""

        self.p_values: Ranked[str, float] = Ranked()
        """Fisher's exact p-value of "no drop" of each task that has visits to compare."""

        self.totals: Counter[PatternKey] = Counter()
        """Undecayed count of each pattern; the empty pattern counts all patterns of its kind."""

        self.last_evidence: dict[PatternKey, tuple[int, ...]] = {}
        """Rollouts of the newest visit in which the pattern occurred."""

        self._most_tasks = most_tasks
        self._window = config.window
        self._shares = _Decaying(config.half_life_visits)

    def add(self, visit: GroupSummary) -> None:
        """Add a further visit."""
        if visit.rollouts == 0:
            return
        task = self._task(visit.task_id)
        tally = SuccessCount(visit.successes, visit.rollouts)
        task.add(Outcome(visit.version_min, visit.version_max, tally))
        if visit.successes:
            task.solved = visit.evidence
        before, now = task.before_and_now()
        if before.rollouts:
            self.p_values.put(visit.task_id, same_rate(before, now))
        else:
            self.p_values.remove(visit.task_id)
        self.surprise.put(visit.task_id, visit.surprise)
        self._add_patterns(visit)

    def dump(self) -> HistoryState:
        """Return the content."""
        return HistoryState(
            tasks=[
                VisitedState(
                    task_id,
                    task.outcomes(),
                    self.surprise.get(task_id) or 0.0,
                    self.p_values.get(task_id),
                    task.solved,
                )
                for task_id, task in self.tasks.items()
            ],
            patterns=[
                PatternState(*key, total, self.last_evidence.get(key), *self._shares.weights[key])
                for key, total in self.totals.items()
            ],
            visits=self._shares.now,
        )

    def load(self, state: HistoryState) -> None:
        """Take up the content of another history, in place of none."""
        for visited in state.tasks:
            task = self.tasks[visited.task_id] = TaskHistory(self._window)
            for outcome in visited.outcomes:
                task.add(outcome)
            task.solved = visited.solved
            self.surprise.put(visited.task_id, visited.surprise)
            if visited.p_value is not None:
                self.p_values.put(visited.task_id, visited.p_value)
        for each in state.patterns:
            key = (each.kind, each.pattern)
            self.totals[key] = each.total
            if each.evidence is not None:
                self.last_evidence[key] = each.evidence
            self._shares.weights[key] = (each.weight, each.at)
        self._shares.now = state.visits

    def share(self, kind: PatternKind, pattern: str) -> Share:
        """Return the decayed share of a pattern; 0 if it never occurred."""
        return Share(self._shares.weight((kind, pattern)), self._shares.weight((kind, "")))

    def _task(self, task_id: str) -> TaskHistory:
        """Return the task's history, created if it is new; forget the task visited longest ago."""
        task = self.tasks.setdefault(task_id, TaskHistory(self._window))
        self.tasks.move_to_end(task_id)
        while len(self.tasks) > self._most_tasks:
            forgotten, _ = self.tasks.popitem(last=False)
            self.surprise.remove(forgotten)
            self.p_values.remove(forgotten)
        return task

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
        if len(self.totals) > MOST_PATTERNS:
            for key in self._shares.oldest(PATTERNS_FORGOTTEN):
                del self.totals[key], self._shares.weights[key]
                self.last_evidence.pop(key, None)


def then_and_now(history: History, visit: GroupSummary) -> tuple[int, ...]:
    """Return a visit's rollouts after those of the task's newest visit that had a success.

    The earlier ones show how the policy did what it does no more.
    """
    return tuple(dict.fromkeys((*history.tasks[visit.task_id].solved, *visit.evidence)))


class _Decaying:
    """Weights with a half-life in ticks; they are stored with their age and decayed when read."""

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self.now = 0
        """Number of ticks so far."""

        self.weights: dict[PatternKey, tuple[float, int]] = {}
        """Weight of each key, and the tick to which it has decayed."""

    def tick(self) -> None:
        self.now += 1

    def add(self, key: PatternKey, amount: float) -> None:
        self.weights[key] = (self.weight(key) + amount, self.now)

    def oldest(self, most: int) -> list[PatternKey]:
        """Return the patterns to which nothing was added for longest, without empty ones."""
        patterns = [key for key in self.weights if key[1]]
        return heapq.nsmallest(most, patterns, key=lambda key: self.weights[key][1])

    def weight(self, key: PatternKey) -> float:
        weight, at = self.weights.get(key, (0.0, self.now))
        return weight * 0.5 ** ((self.now - at) / self._half_life)


def _pool(tallies: Iterable[SuccessCount]) -> SuccessCount:
    successes = rollouts = 0
    for tally in tallies:
        successes += tally.successes
        rollouts += tally.rollouts
    return SuccessCount(successes, rollouts)

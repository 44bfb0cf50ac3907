"""The history that the rules use: a fold over group summaries (visits), rebuilt by reading them.

Visits in which every rollout was an infrastructure failure are ignored. The memory is bounded
however long a run lasts: by ``most_tasks`` tasks that were visited last, and by `MAX_PATTERNS`
patterns that occurred last. A task that is visited again after that many others, and a pattern that
occurs again, counts as new.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from coevolve.base.ordered import Ranked
from coevolve.signals.probability import SuccessCount, same_rate
from coevolve.signals.skill_model import NO_SPACE, SkillModel, SkillSpace, SkillsState
from protocols.evolution import GroupSummary, PatternKind
from protocols.evolution_config import SignalsConfig

PatternKey = tuple[PatternKind, str]

MAX_PATTERNS = 10_000
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


class TaskHistory(msgspec.Struct, array_like=True):
    """The visits of one task within the window, including the newest."""

    outcomes: list[Outcome] = msgspec.field(default_factory=list[Outcome])
    """All visits within the window, oldest first."""

    surprise: float = 0.0
    """Surprise of the newest visit."""

    p_value: float | None = None
    """Fisher's exact p-value of "no drop"; None without visits to compare."""

    solved: tuple[int, ...] = ()
    """Rollouts of the newest visit in which some succeeded."""

    def add(self, outcome: Outcome, window: int) -> None:
        """Add a further visit; ``window`` earlier ones stay."""
        self.outcomes = [*self.outcomes, outcome][-window - 1 :]

    @property
    def newest(self) -> Outcome:
        """Return the newest visit."""
        return self.outcomes[-1]

    def earlier(self) -> Sequence[Outcome]:
        """Return the visits before the newest, oldest first, at most as many as the window."""
        return tuple(self.outcomes[:-1])

    def before_and_now(self) -> tuple[SuccessCount, SuccessCount]:
        """Return the pooled visits of older versions, and those of the newest visit's versions.

        Visits overlap if they share a policy version. "Before" ends where "now" begins, so no
        version is compared with itself. Either is 0 of 0 if it has no visits.
        """
        now = self.newest
        return (
            _pool(each.tally for each in self.outcomes if each.version_max < now.version_min),
            _pool(
                each.tally
                for each in self.outcomes
                if each.version_max >= now.version_min and each.version_min <= now.version_max
            ),
        )


class Pattern(msgspec.Struct, array_like=True):
    """What is remembered of a pattern. The empty pattern counts all patterns of its kind."""

    total: int = 0
    """Undecayed count."""

    evidence: tuple[int, ...] = ()
    """Rollouts of the newest visit in which it occurred; none for the empty pattern."""

    weight: float = 0.0
    """Weight, decayed to ``at``."""

    at: int = 0
    """Number of the newest visit with the pattern, from 1."""


class HistoryState(msgspec.Struct):
    """What `History` remembers."""

    tasks: dict[str, TaskHistory] = msgspec.field(default_factory=dict[str, TaskHistory])
    """The task that was visited last is last."""

    patterns: dict[PatternKey, Pattern] = msgspec.field(default_factory=dict[PatternKey, Pattern])
    """In the order in which they occurred first."""

    visits: int = 0

    failures: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Skill -> attempts that failed at it since one passed it; the newest is last."""

    skills: SkillsState = msgspec.field(default_factory=SkillsState)
    """Empty unless ``signals.rules`` is ``skills``."""


class History:
    """The state of all visits so far that the rules need."""

    surprise: Ranked[str, float]
    """Surprise of each task's newest visit."""

    p_values: Ranked[str, float]
    """The p-value of each task that has one."""

    def __init__(
        self,
        config: SignalsConfig,
        tools: Sequence[str],
        most_tasks: int,
        space: SkillSpace = NO_SPACE,
    ) -> None:
        """Start empty; ``tools`` are all tools of the policy, called or not.

        A task that is remembered takes about 3 kB with 10 visits.
        """
        self.tools = tuple(sorted(set(tools)))
        self._most_tasks = most_tasks
        self._window = config.window
        self._half_life = config.half_life_visits
        self._has_skills = config.rules == "skills"
        self.skills = SkillModel(space, config.half_life_visits, config.forgetting_evidence)
        self.state = HistoryState()

    @property
    def state(self) -> HistoryState:
        """What it remembers; the ranks follow if it is replaced."""
        return self._state

    @state.setter
    def state(self, state: HistoryState) -> None:
        self._state = state
        self.surprise, self.p_values = Ranked(), Ranked()
        self.skills.state = state.skills
        for task_id, task in state.tasks.items():
            self._rank(task_id, task)

    def add(self, visit: GroupSummary) -> None:
        if visit.rollouts == 0:
            return
        task = self._task(visit.task_id)
        tally = SuccessCount(visit.successes, visit.rollouts)
        task.add(Outcome(visit.version_min, visit.version_max, tally), self._window)
        if visit.successes:
            task.solved = visit.evidence
        before, now = task.before_and_now()
        task.p_value = same_rate(before, now) if before.rollouts else None
        task.surprise = visit.surprise
        self._rank(visit.task_id, task)
        self._add_patterns(visit)
        self.skills.lost = {}
        if visit.author == "policy":
            self._add_skills(visit)
            if self._has_skills:
                self.skills.add(visit)

    def task(self, task_id: str) -> TaskHistory:
        """Return the history of a remembered task. Raises KeyError."""
        return self._state.tasks[task_id]

    def failures(self, skill: str) -> int:
        """Return how many attempts failed at a skill since one passed it."""
        return self._state.failures.get(skill, 0)

    def pattern(self, key: PatternKey) -> Pattern:
        """Return what is remembered of a pattern, which may be nothing."""
        return self._state.patterns.get(key) or Pattern()

    def share(self, kind: PatternKind, pattern: str) -> Share:
        """Return the decayed share of a pattern; 0 if it never occurred."""
        return Share(self._weight((kind, pattern)), self._weight((kind, "")))

    def _weight(self, key: PatternKey) -> float:
        pattern = self.pattern(key)
        return pattern.weight * 0.5 ** ((self._state.visits - pattern.at) / self._half_life)

    def _task(self, task_id: str) -> TaskHistory:
        """Return the task's history, created if it is new; forget the task visited longest ago."""
        tasks = self._state.tasks
        task = tasks[task_id] = tasks.pop(task_id, None) or TaskHistory()
        while len(tasks) > self._most_tasks:
            forgotten = next(iter(tasks))
            del tasks[forgotten]
            self.surprise.remove(forgotten)
            self.p_values.remove(forgotten)
        return task

    def _rank(self, task_id: str, task: TaskHistory) -> None:
        self.surprise.put(task_id, task.surprise)
        if task.p_value is None:
            self.p_values.remove(task_id)
        else:
            self.p_values.put(task_id, task.p_value)

    def _add_patterns(self, visit: GroupSummary) -> None:
        of_kind: Counter[PatternKind] = Counter()
        for each in visit.patterns:
            of_kind[each.kind] += each.count
        self._state.visits += 1
        for kind, count in of_kind.items():
            self._add((kind, ""), count, 1.0)
        for each in visit.patterns:
            key = (each.kind, each.pattern)
            self._add(key, each.count, each.count / of_kind[each.kind], visit.evidence)
        if len(self._state.patterns) > MAX_PATTERNS:
            self._forget_patterns()

    def _add(
        self, key: PatternKey, count: int, amount: float, evidence: tuple[int, ...] = ()
    ) -> None:
        weight, total = self._weight(key) + amount, self.pattern(key).total + count
        self._state.patterns[key] = Pattern(total, evidence, weight, self._state.visits)

    def _add_skills(self, visit: GroupSummary) -> None:
        failures = self._state.failures
        for each in visit.skills:
            before = failures.pop(each.skill, 0)
            if not each.passed:
                failures[each.skill] = before + each.attempts
        while len(failures) > MAX_PATTERNS:
            del failures[next(iter(failures))]

    def _forget_patterns(self) -> None:
        """Forget the patterns that have not occurred for longest, without empty ones."""
        patterns = self._state.patterns
        named = [key for key in patterns if key[1]]
        for key in heapq.nsmallest(PATTERNS_FORGOTTEN, named, key=lambda key: patterns[key].at):
            del patterns[key]


def then_and_now(history: History, visit: GroupSummary) -> tuple[int, ...]:
    """Return a visit's rollouts after those of the task's newest visit that had a success.

    The earlier ones show how the policy did what it does no more.
    """
    return tuple(dict.fromkeys((*history.task(visit.task_id).solved, *visit.evidence)))


def _pool(tallies: Iterable[SuccessCount]) -> SuccessCount:
    successes = rollouts = 0
    for tally in tallies:
        successes += tally.successes
        rollouts += tally.rollouts
    return SuccessCount(successes, rollouts)

"""Estimates of the policy: on a task before and after a signal, and on a skill over the run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest

from coevolve.history.histories import SignalHistory
from coevolve.history.run_history import RunHistory, judged, skills_of
from coevolve.history.score import wilson
from coevolve.signals.history import Outcome, TaskHistory
from coevolve.signals.probability import SuccessCount
from protocols.evolution import (
    SKILL,
    Admitted,
    Anything,
    GroupSummary,
    OnPattern,
    OnTask,
    Refused,
    Signal,
)
from protocols.tasks import Synthesized, Task

RECENT = 20
"""Groups with a skill from which it is estimated: the first and the newest ones."""


@dataclass(frozen=True)
class Estimate:
    """A share of trials with its 95 % interval (Wilson)."""

    count: int
    trials: int

    @property
    def share(self) -> float:
        """The share, 0..1; 0 without trials."""
        return self.count / self.trials if self.trials else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval; 0 and 1 without trials."""
        return wilson(self.share, self.trials) if self.trials else (0.0, 1.0)

    def is_below(self, other: "Estimate") -> bool:
        """Return whether it is below ``other`` beyond chance: its interval ends before that one."""
        return self.interval[1] < other.interval[0]

    @property
    def text(self) -> str:
        """The estimate as ``25 % [7, 59], 2/8``; empty without trials."""
        if not self.trials:
            return ""
        low, high = self.interval
        whole = f"{100 * self.share:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
        return f"{whole}, {self.count}/{self.trials}"


@dataclass(frozen=True)
class Change:
    """An estimate before a signal, when it was raised, and afterwards."""

    before: Estimate
    now: Estimate
    after: Estimate

    @property
    def is_below(self) -> bool:
        """Whether it is below the estimate before beyond chance."""
        return self.after.is_below(self.before)


def change_of(history: SignalHistory, window: int) -> Change:
    """Return the success on the flagged task, over the groups that the signal's rule looks at.

    Afterwards are the newest ``window`` groups since. Nothing is known if the signal is about a
    pattern; see `PatternUse`.
    """
    outcomes = TaskHistory()
    for visit in judged(history.before):
        tally = SuccessCount(visit.successes, visit.rollouts)
        outcomes.add(Outcome(visit.version_min, visit.version_max, tally), window)
    known = bool(outcomes.outcomes)
    before, now = outcomes.before_and_now() if known else (SuccessCount(0, 0), SuccessCount(0, 0))
    return Change(Estimate(*before), Estimate(*now), _pool(judged(history.since)[-window:]))


def recovered_by(history: SignalHistory, window: int) -> GroupSummary | None:
    """Return the first group since a signal that is not below the success before, beyond chance.

    None if there is no such group, or nothing is known of the success before.
    """
    before = change_of(history, window).before
    if not before.trials:
        return None
    since = judged(history.since)
    return next((v for v in since if not _pool([v]).is_below(before)), None)


class PatternUse:
    """How many groups show a pattern, before a policy version and after it."""

    def __init__(self, visits: Iterable[GroupSummary], patterns: Iterable[OnPattern]) -> None:
        """Count the groups of ``visits`` for each of ``patterns``."""
        self._used: dict[tuple[str, str], list[int]] = {(p.kind, p.pattern): [] for p in patterns}
        self._every: dict[tuple[str, str], list[int]] = {}
        wanted = {kind for kind, _ in self._used}
        for visit in visits:
            for kind in wanted & {each.kind for each in visit.patterns}:
                self._every.setdefault((kind, ""), []).append(visit.version_max)
            for each in visit.skills:
                self._every.setdefault((SKILL, each.skill), []).append(visit.version_max)
            shown = [(each.kind, each.pattern) for each in visit.patterns]
            passed = [(SKILL, each.skill) for each in visit.skills if each.passed]
            for key in (*shown, *passed):
                if (versions := self._used.get(key)) is not None:
                    versions.append(visit.version_max)

    def change(self, about: OnPattern, version: int) -> Change:
        """Return the share of the groups with any pattern of its kind that show this one.

        Of a skill, it is the share of the groups that came to it in which some attempt passed it.
        """
        used = self._used[about.kind, about.pattern]
        of_kind = about.pattern if about.kind == SKILL else ""
        every = self._every.get((about.kind, of_kind), [])
        before = Estimate(sum(v <= version for v in used), sum(v <= version for v in every))
        after = Estimate(len(used) - before.count, len(every) - before.trials)
        return Change(Estimate(0, 0), before, after)


@dataclass
class Skill:
    """The evidence for one skill, and what the loop made of it."""

    name: str
    groups: int = 0
    """Finished groups on tasks with the skill, of those whose summaries the journal has."""

    first: Estimate = Estimate(0, 0)
    """Success in the first `RECENT` groups with the skill."""

    newest: Estimate = Estimate(0, 0)
    """Success in the newest `RECENT` groups."""

    signals: Counter[str] = field(default_factory=Counter[str])
    """Signals about the skill, by kind."""

    tasks: int = 0
    """Synthesized tasks with the skill."""

    admitted: int = 0
    refused: int = 0
    """Candidates from signals about the skill."""


def skill_map(data: RunHistory) -> dict[str, Skill]:
    """Return the skills of all tasks that are trained or scored on, by name."""
    evolution = data.evolution
    by_task = {task_id: skills_of(data, task) for task_id, task in evolution.tasks.items()}
    names = {name for skills in (*by_task.values(), *data.skills.values()) for name in skills}
    found = {name: Skill(name) for name in names}
    for name, visits in _visits_by_skill(evolution.visits, by_task).items():
        skill = found[name]
        skill.groups = len(visits)
        skill.first = _pool(nsmallest(RECENT, visits, key=lambda visit: visit.group))
        skill.newest = _pool(nlargest(RECENT, visits, key=lambda visit: visit.group))
    for task_id, skills in by_task.items():
        if isinstance(evolution.tasks[task_id].origin, Synthesized):
            for name in skills:
                found[name].tasks += 1
    for signal in evolution.signals.values():
        _count_signal(data, signal, found)
    return found


def flagged_skills(data: RunHistory, signal: Signal) -> tuple[str, ...]:
    """Return the skills of the flagged task; for a pattern, the pattern."""
    match signal.about:
        case OnTask(task_id=task_id):
            task: Task | None = data.evolution.tasks.get(task_id)
            return skills_of(data, task) if task else ()
        case OnPattern(pattern=pattern):
            return (pattern,)
        case Anything():
            return ()


def _count_signal(data: RunHistory, signal: Signal, found: Mapping[str, Skill]) -> None:
    verdicts = data.evolution.newest_verdicts(signal.signal_id)
    for name in flagged_skills(data, signal):
        if skill := found.get(name):
            skill.signals[signal.kind] += 1
            skill.admitted += sum(isinstance(each.outcome, Admitted) for each in verdicts)
            skill.refused += sum(isinstance(each.outcome, Refused) for each in verdicts)


def _visits_by_skill(
    visits: Mapping[str, Sequence[GroupSummary]], skills: Mapping[str, Sequence[str]]
) -> dict[str, list[GroupSummary]]:
    found: dict[str, list[GroupSummary]] = {}
    for task_id, each in visits.items():
        for name in skills.get(task_id, ()):
            found.setdefault(name, []).extend(judged(each))
    return found


def _pool(visits: Iterable[GroupSummary]) -> Estimate:
    pairs = [(visit.successes, visit.rollouts) for visit in visits]
    return Estimate(sum(done for done, _ in pairs), sum(tried for _, tried in pairs))

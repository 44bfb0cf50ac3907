"""Measures how often the rules fire on simulated policies of known skill.

The rules of both sets judge visits of the same kinds; they are the same functions that the signals
part runs. A *false alarm* is a finding without cause: on a task whose success rate did not change,
on a task outside the boundary's band, or on a pattern that is not rare. With a cause, the same
number is the *detection* rate. For `boundary`, a success rate inside the band is therefore a
detection even without any change, because the signal is about the level.

Rates are per evaluation: of one task at one visit, or of one pattern at one visit. A rule that
looks again at every visit gets as many chances. In the pool every task is judged against all
others, as in a run. Cool-downs are left out.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from coevolve.signals.detector import RULES
from coevolve.signals.history import History
from protocols.config import RunConfig
from protocols.evolution import GroupSummary, OnPattern, PatternCount, RuleKind

LEVELS = tuple(level / 20 for level in range(21))
"""Success rates."""

DROPS = ((0.8, 0.3), (0.7, 0.2), (0.9, 0.5))

SHARES = (0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 5.0)
"""Frequencies of a pattern, as multiples of ``signals.rare_share``."""

PATTERN_VISITS = 300
"""A pattern is judged at every visit from `FIRST_JUDGED` to this one."""

FIRST_JUDGED = 20
CALLS_PER_ROLLOUT = 3
PATTERN = OnPattern(kind="tool", pattern="pattern")
POOL_TASKS = 100
POOL_DROPPED = 20
RuleSet = Literal["paper", "posterior"]
SETS: tuple[RuleSet, ...] = ("paper", "posterior")

Meaning = Literal["false alarm", "detection", "false discoveries"]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often one rule fired in one situation."""

    rules: str
    kind: RuleKind
    situation: str
    meaning: Meaning
    fired: int
    evaluations: int

    @property
    def rate(self) -> float:
        """Return findings per evaluation, 0..1; 0 without any."""
        return self.fired / max(1, self.evaluations)


class Size(NamedTuple):
    """Size of the simulation."""

    tasks: int
    """Number of histories of one task per level; five times more if a history is a single visit."""

    patterns: int
    """Number of histories of one pattern per level."""

    pools: int


class Simulation:
    """Simulated visits and the rules that judge them."""

    def __init__(self, config: RunConfig, size: Size, seed: int) -> None:
        self.size = size
        self.group_size = config.rollout.group_size
        self.signals = config.signals
        self.random = np.random.default_rng(seed)

    def history(self, tools: Sequence[str] = ()) -> History:
        """Return an empty history."""
        return History(self.signals, tools, sys.maxsize)

    def visit(self, skill: float, version: int, task_id: str = "task") -> GroupSummary:
        """Return a visit by a policy that succeeds with probability ``skill``."""
        successes = int(self.random.binomial(self.group_size, skill))
        return _visit(task_id, version, successes, self.group_size)

    def fires(self, rules: str, kind: RuleKind, history: History, visit: GroupSummary) -> bool:
        """Return whether a rule fires for the newest ``visit`` in ``history``."""
        return next(RULES[rules][kind](self.signals, history, visit), None) is not None

    def rates(
        self,
        kind: RuleKind,
        situation: str,
        meaning: Meaning,
        judged: Iterator[tuple[History, GroupSummary]],
    ) -> list[Rate]:
        """Run both rule sets on the same histories and newest visits."""
        fired = dict.fromkeys(SETS, 0)
        evaluations = 0
        sets: list[RuleSet] = [rules for rules in SETS if kind in RULES[rules]]
        for history, visit in judged:
            evaluations += 1
            for rules in sets:
                fired[rules] += self.fires(rules, kind, history, visit)
        return [
            Rate(
                rules=rules,
                kind=kind,
                situation=situation,
                meaning=meaning,
                fired=fired[rules],
                evaluations=evaluations,
            )
            for rules in sets
        ]


def calibrate(config: RunConfig, *, size: Size, seed: int = 0) -> list[Rate]:
    """Return every rate of every rule of both sets; deterministic for a given seed."""
    simulation = Simulation(config, size, seed)
    return [
        *forgetting_rates(simulation),
        *pool_rates(simulation),
        *boundary_rates(simulation),
        *rare_rates(simulation),
        *uncertainty_rates(simulation),
        *unsolved_rates(simulation),
    ]


def forgetting_rates(simulation: Simulation) -> Iterator[Rate]:
    """Yield the rates for one task with constant skill, and with a drop at the last visit."""
    window = simulation.signals.window
    for earlier in sorted({1, window}):
        for level in LEVELS:
            judged = _one_task(simulation, level, level, earlier)
            situation = f"p = {level:.2f} all along, {earlier + 1} visits"
            yield from simulation.rates("forgetting", situation, "false alarm", judged)
        for before, now in DROPS:
            judged = _one_task(simulation, before, now, earlier)
            situation = f"p = {before} -> {now}, {earlier + 1} visits"
            yield from simulation.rates("forgetting", situation, "detection", judged)


def pool_rates(simulation: Simulation) -> Iterator[Rate]:
    """Yield false alarms and detections in a pool where the skill on some or no tasks drops.

    The last visits are folded one after the other, so a task is judged while others still look
    good.
    """
    before, now = DROPS[0]
    for rules in SETS:
        none = [_pool(simulation, rules, 0) for _ in range(simulation.size.pools)]
        some = [_pool(simulation, rules, POOL_DROPPED) for _ in range(simulation.size.pools)]
        changed = f"{POOL_DROPPED} of {POOL_TASKS} tasks drop {before} -> {now}"
        counts: tuple[tuple[str, Meaning, int, int], ...] = (
            (
                f"none of {POOL_TASKS} tasks changes",
                "false alarm",
                sum(false for false, _ in none),
                POOL_TASKS * len(none),
            ),
            (
                changed,
                "false discoveries",
                sum(false for false, _ in some),
                sum(false + true for false, true in some),
            ),
            (changed, "detection", sum(true for _, true in some), POOL_DROPPED * len(some)),
        )
        for situation, meaning, fired, evaluations in counts:
            yield Rate(
                rules=rules,
                kind="forgetting",
                situation=situation,
                meaning=meaning,
                fired=fired,
                evaluations=evaluations,
            )


def boundary_rates(simulation: Simulation) -> Iterator[Rate]:
    """Yield the rates for one visit per level: false alarms outside the band, else detections."""
    low, high = simulation.signals.boundary_low, simulation.signals.boundary_high
    for level in sorted({*LEVELS, low, high}):
        inside = low < level < high
        situation = f"p = {level:.2f}, {'inside' if inside else 'outside'} {low:g}..{high:g}"
        meaning = "detection" if inside else "false alarm"
        yield from simulation.rates(
            "boundary", situation, meaning, _one_task(simulation, level, level, 0)
        )


def unsolved_rates(simulation: Simulation) -> Iterator[Rate]:
    """Yield the rates for one task: false alarms at the boundary's lower end, else detections."""
    earlier, low = simulation.signals.window, simulation.signals.boundary_low
    for level in sorted({0.0, low / 2, low, 2 * low}):
        judged = _one_task(simulation, level, level, earlier)
        meaning: Meaning = "detection" if level < low else "false alarm"
        situation = f"p = {level:.3g} all along, {earlier + 1} visits"
        yield from simulation.rates("unsolved", situation, meaning, judged)


def rare_rates(simulation: Simulation) -> Iterator[Rate]:
    """Yield the rates for one pattern, judged at every visit at which a rule looks at it.

    If calls are alike, either all calls of a visit are the pattern or none is, as when one task
    needs it and another does not.
    """
    for alike in (False, True):
        for multiple in SHARES:
            share = min(1.0, multiple * simulation.signals.rare_share)
            situation = f"share {share:.3g}, calls {'alike' if alike else 'differ'}"
            for rules in SETS:
                fired, evaluations = _pattern(simulation, rules, share, alike)
                yield Rate(
                    rules=rules,
                    kind="rare",
                    situation=situation,
                    meaning="false alarm" if multiple >= 1 else "detection",
                    fired=fired,
                    evaluations=evaluations,
                )


def uncertainty_rates(simulation: Simulation) -> Iterator[Rate]:
    """Yield the rates for a task like all others, and for one with three times their surprise."""

    def judged(factor: float) -> Iterator[tuple[History, GroupSummary]]:
        for _ in range(simulation.size.tasks):
            history = simulation.history()
            surprises = simulation.random.gamma(4.0, 0.1, POOL_TASKS)
            surprises[-1] *= factor
            for number, surprise in enumerate(surprises):
                visit = _visit(f"task-{number}", 1, 1, 2, surprise=float(surprise))
                history.add(visit)
                if number == POOL_TASKS - 1:
                    yield history, visit

    yield from simulation.rates("uncertainty", "all tasks alike", "false alarm", judged(1.0))
    yield from simulation.rates("uncertainty", "three times the surprise", "detection", judged(3.0))


def _one_task(
    simulation: Simulation, before: float, now: float, earlier: int
) -> Iterator[tuple[History, GroupSummary]]:
    """Yield histories of one task with one version per visit, and the newest visit."""
    for _ in range(simulation.size.tasks * (5 if earlier == 0 else 1)):
        history = simulation.history()
        for version in range(earlier):
            history.add(simulation.visit(before, version))
        newest = simulation.visit(now, earlier)
        history.add(newest)
        yield history, newest


def _pool(simulation: Simulation, rules: str, dropped: int) -> tuple[int, int]:
    """Return (false, true) findings of forgetting at the last visits of a pool's tasks."""
    before, now = DROPS[0]
    others = simulation.random.uniform(size=POOL_TASKS - dropped).tolist()
    skills = [before] * dropped + others
    history = simulation.history()
    window = simulation.signals.window
    for version in range(window):
        for task, skill in enumerate(skills):
            history.add(simulation.visit(skill, version, f"task-{task}"))
    found = [0, 0]
    for task in simulation.random.permutation(POOL_TASKS).tolist():
        newest = simulation.visit(now if task < dropped else skills[task], window, f"task-{task}")
        history.add(newest)
        found[task < dropped] += simulation.fires(rules, "forgetting", history, newest)
    return found[0], found[1]


def _pattern(simulation: Simulation, rules: str, share: float, alike: bool) -> tuple[int, int]:
    """Return (findings, evaluations) of the rare rule for one pattern in many histories."""
    fired = evaluations = 0
    calls = simulation.group_size * CALLS_PER_ROLLOUT
    for _ in range(simulation.size.patterns):
        history = simulation.history(tools=[PATTERN.pattern])
        draws = (1 if alike else calls, share, PATTERN_VISITS)
        counts = simulation.random.binomial(*draws) * (calls if alike else 1)
        for number, count in enumerate(counts):
            visit = _visit(
                "task", number, 0, simulation.group_size, patterns=_tools(int(count), calls)
            )
            history.add(visit)
            # The paper's rule looks only at patterns of the newest visit.
            if number < FIRST_JUDGED or (rules == "paper" and count == 0):
                continue
            evaluations += 1
            found = RULES[rules]["rare"](simulation.signals, history, visit)
            fired += any(finding.about == PATTERN for finding in found)
    return fired, evaluations


def _tools(count: int, calls: int) -> tuple[PatternCount, ...]:
    named = ((PATTERN.pattern, count), ("other", calls - count))
    return tuple(PatternCount(kind="tool", pattern=name, count=n) for name, n in named if n)


def _visit(
    task_id: str,
    version: int,
    successes: int,
    rollouts: int,
    *,
    surprise: float = 0.0,
    patterns: tuple[PatternCount, ...] = (),
) -> GroupSummary:
    return GroupSummary(
        group_id=f"{task_id}@{version}",
        group=version,
        task_id=task_id,
        root=task_id,
        version_min=version,
        version_max=version,
        successes=successes,
        rollouts=rollouts,
        errors=0,
        surprise=surprise,
        sampled_tokens=0,
        calls=sum(each.count for each in patterns),
        patterns=patterns,
        evidence=(),
    )

"""Coverage-guided rejection: which steps of a policy are worth training on.

Source: LLM4Cov (arXiv 2602.16953), section 3, and what its released filter does beyond that. A step
is kept where its testbench has coverage and

- the state before had none (the simulation was repaired), or the overall average rose by at least
  ``least_gain`` and no kind of coverage fell;
- the overall average is at least ``floor`` (the paper's extra rule for its warm-up data).

Of the kept steps from one state the one with the greatest gain stays, the first of equals; where a
run asks for it (``keep``), so many.

A step towards a goal (`hdl.policy.task.DesignTask.goal`) is kept where it covers more of the goal
than the state before, whatever it gained besides, and no kind of coverage fell; the one that covers
most of the goal stays, of those the one with the greatest gain. A rule that asks for no gain at all
(``least_gain`` -1) asks for none of the goal either.

`PAPER` is that. `RELEASED` differs as the authors' script does: the gain must exceed the threshold
rather than reach it, steps from a blank state are dropped, and one step a design stays rather than
one a state. Their rule looks at the rows of their simulator's report; here it looks at the kinds of
`coevolve.environments.hdl.simulate.messages`, so lines and branches may not fall each for itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from coevolve.environments.hdl.config import RejectionConfig
from coevolve.environments.hdl.curation.states import average, exact, falls, gain, reached
from coevolve.environments.hdl.policy.transition import (
    Blank,
    DesignState,
    Graded,
    Transition,
    coverage_of,
)

Reason = Literal[
    "kept", "no_coverage", "below_floor", "blank_state", "too_little_gain", "kind_fell", "outdone"
]
"""``outdone``: another step from the same state gained more."""


@dataclass(frozen=True, kw_only=True)
class RejectionRule:
    """What a step must have gained. All shares are fractions 0..1."""

    least_gain: float = 0.01
    floor: float = 0.0
    no_kind_falls: bool = True
    strict: bool = False
    """Whether the gain must exceed ``least_gain``, rather than reach it."""

    from_blank: bool = True
    """Whether steps from a blank state are judged by their gain from 0; else they are dropped."""

    of_each: Literal["state", "design", "step"] = "state"
    """Of which the steps with the greatest gain stay; ``step`` keeps all."""

    keep: int = 1
    """How many of them, at most."""


def rule_of(settings: RejectionConfig) -> RejectionRule:
    """Return the rule that a run's settings name."""
    return RejectionRule(
        least_gain=settings.least_gain,
        floor=settings.floor,
        no_kind_falls=settings.no_kind_falls,
        keep=settings.keep,
    )


PAPER = RejectionRule()
RELEASED = RejectionRule(strict=True, from_blank=False, of_each="design")
WARM_UP = RejectionRule(floor=0.5)
"""The paper's, for stage 0."""

ANY_GAIN = -1.0
"""``least_gain`` of a rule that asks for none."""

UNFILTERED = RejectionRule(least_gain=ANY_GAIN, no_kind_falls=False, of_each="step")
"""Keeps whatever has coverage: execution-validated, not coverage-guided."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A step, and whether it is kept."""

    transition: Transition
    reason: Reason
    gain: Fraction


def judge(
    state: DesignState,
    made: Graded,
    rule: RejectionRule = PAPER,
    goal: Sequence[int] = (),
) -> Reason:
    """Return ``kept`` where the step by itself is worth training on, or why it is not."""
    before, after = coverage_of(state), coverage_of(made)
    if after is None:
        return "no_coverage"
    if goal:
        return _towards(state, made, rule, goal)
    if average(after) < exact(rule.floor):
        return "below_floor"
    if isinstance(state, Blank):
        if not rule.from_blank:
            return "blank_state"
    elif before is None:
        return "kept"
    risen, least = gain(state, made), exact(rule.least_gain)
    if risen < least or (rule.strict and risen == least):
        return "too_little_gain"
    if rule.no_kind_falls and before is not None and falls(before, after):
        return "kind_fell"
    return "kept"


def most_gained(
    state: DesignState,
    made: Mapping[int, Graded],
    rule: RejectionRule = PAPER,
    goal: Sequence[int] = (),
) -> tuple[int, ...]:
    """Return which of several steps from ``state`` are worth training on, the best first.

    Of those that are kept the ones that cover most of the ``goal``, then those with the greatest
    gain, of equals the smallest indices.
    """
    ranks = {
        index: (len(reached(goal, each)), gain(state, each))
        for index, each in sorted(made.items())
        if judge(state, each, rule, goal) == "kept"
    }
    return tuple(sorted(ranks, key=lambda index: ranks[index], reverse=True)[: rule.keep])


def _towards(state: DesignState, made: Graded, rule: RejectionRule, goal: Sequence[int]) -> Reason:
    """Return what becomes of a step with coverage for what it covers of ``goal``."""
    before, after = coverage_of(state), coverage_of(made)
    nearer = len(reached(goal, made)) > len(reached(goal, state))
    if rule.least_gain > ANY_GAIN and not nearer:
        return "too_little_gain"
    fell = before is not None and after is not None and falls(before, after)
    return "kind_fell" if rule.no_kind_falls and fell else "kept"


def reject(transitions: Sequence[Transition], rule: RejectionRule = PAPER) -> tuple[Judged, ...]:
    """Return every step in the order given, with what became of it."""
    judged = [
        Judged(
            transition=each,
            reason=judge(each.before, each.after, rule, each.goal),
            gain=gain(each.before, each.after),
        )
        for each in transitions
    ]
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        if each.reason == "kept":
            groups[_group(each.transition, rule)].append(each)
    stay = {
        id(each)
        for group in groups.values()
        for each in sorted(group, key=_rank, reverse=True)[: rule.keep]
    }
    return tuple(
        each
        if each.reason != "kept" or id(each) in stay
        else Judged(transition=each.transition, reason="outdone", gain=each.gain)
        for each in judged
    )


def _rank(judged: Judged) -> tuple[int, Fraction]:
    step = judged.transition
    return len(reached(step.goal, step.after)), judged.gain


def kept(judged: Iterable[Judged]) -> tuple[Transition, ...]:
    """Return the steps to train on."""
    return tuple(each.transition for each in judged if each.reason == "kept")


def reasons(judged: Iterable[Judged]) -> dict[Reason, int]:
    """Return how many steps each reason befell."""
    return dict(Counter(each.reason for each in judged))


def _group(transition: Transition, rule: RejectionRule) -> str:
    match rule.of_each:
        case "state":
            return f"{transition.state_key} {transition.goal}"
        case "design":
            return f"{transition.design_id} {transition.goal}"
        case "step":
            return transition.transition_id

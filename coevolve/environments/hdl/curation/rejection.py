"""Coverage-guided rejection: selects the steps of a policy that are worth training on.

Source: LLM4Cov (arXiv 2602.16953), section 3, and additions of its released filter. A step is kept
if its testbench has coverage and

- the state before had none (the simulation was repaired), or the overall average rose by at least
  ``least_gain`` and no kind of coverage fell;
- the overall average is at least ``floor`` (the paper's extra rule for its warm-up data).

Of the kept steps from one state the one with the largest gain stays, the first of equals, or the
``keep`` best if the run sets more.

`PAPER` is this rule. `RELEASED` follows the authors' script: the gain must exceed the threshold,
not only reach it; steps from a blank state are dropped; one step per design stays, not one per
state. Their rule compares the rows of their simulator's report. This one compares the kinds of
`coevolve.environments.hdl.simulate.messages`, so lines and branches are checked separately.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from coevolve.environments.hdl.config import RejectionConfig
from coevolve.environments.hdl.curation.states import average, exact, falls, gain
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
"""``outdone``: another step from the same state had a larger gain."""


@dataclass(frozen=True, kw_only=True)
class RejectionRule:
    """The conditions on a step. All shares are fractions 0..1."""

    least_gain: float = 0.01
    floor: float = 0.0
    no_kind_falls: bool = True
    strict: bool = False
    """Whether the gain must exceed ``least_gain``, rather than reach it."""

    from_blank: bool = True
    """Whether the gain of steps from a blank state counts from 0; if false, they are dropped."""

    of_each: Literal["state", "design", "step"] = "state"
    """The unit of which the steps with the largest gain stay; ``step`` keeps all."""

    keep: int = 1
    """Maximum number of steps per unit."""


def rule_of(settings: RejectionConfig) -> RejectionRule:
    """Return the rule of a run's settings."""
    return RejectionRule(
        least_gain=settings.least_gain,
        floor=settings.floor,
        no_kind_falls=settings.no_kind_falls,
        keep=settings.keep,
    )


PAPER = RejectionRule()
RELEASED = RejectionRule(strict=True, from_blank=False, of_each="design")
WARM_UP = RejectionRule(floor=0.5)
"""The paper's rule for stage 0."""

UNFILTERED = RejectionRule(least_gain=-1.0, no_kind_falls=False, of_each="step")
"""Keeps every step with coverage: execution-validated, not coverage-guided."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A step, and the reason why it is kept or rejected."""

    transition: Transition
    reason: Reason
    gain: Fraction


def judge(state: DesignState, made: Graded, rule: RejectionRule = PAPER) -> Reason:
    """Return ``kept`` if the step by itself is worth training on, or else the reason."""
    before, after = coverage_of(state), coverage_of(made)
    if after is None:
        return "no_coverage"
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
) -> tuple[int, ...]:
    """Return the indices of the steps from ``state`` that are worth training on, the best first.

    The kept steps with the largest gain come first, of equals those with the smallest indices.
    """
    gains = {
        index: gain(state, each)
        for index, each in sorted(made.items())
        if judge(state, each, rule) == "kept"
    }
    return tuple(sorted(gains, key=lambda index: gains[index], reverse=True)[: rule.keep])


def reject(transitions: Sequence[Transition], rule: RejectionRule = PAPER) -> tuple[Judged, ...]:
    """Return every step with its result, in the order given."""
    judged = [
        Judged(
            transition=each,
            reason=judge(each.before, each.after, rule),
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
        for each in sorted(group, key=lambda each: each.gain, reverse=True)[: rule.keep]
    }
    return tuple(
        each
        if each.reason != "kept" or id(each) in stay
        else Judged(transition=each.transition, reason="outdone", gain=each.gain)
        for each in judged
    )


def kept(judged: Iterable[Judged]) -> tuple[Transition, ...]:
    """Return the kept steps."""
    return tuple(each.transition for each in judged if each.reason == "kept")


def reasons(judged: Iterable[Judged]) -> dict[Reason, int]:
    """Return the number of steps for each reason."""
    return dict(Counter(each.reason for each in judged))


def _group(transition: Transition, rule: RejectionRule) -> str:
    match rule.of_each:
        case "state":
            return transition.state_key
        case "design":
            return transition.design_id
        case "step":
            return transition.transition_id

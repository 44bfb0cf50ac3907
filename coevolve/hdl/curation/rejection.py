"""Coverage-guided rejection: which steps of a policy are worth training on.

Source: LLM4Cov (arXiv 2602.16953), section 3, and what its released filter does beyond that. A step
is kept where its testbench has coverage and

- the state before had none (the simulation was repaired), or the overall average rose by at least
  ``least_gain`` and no kind of coverage fell;
- the overall average is at least ``floor`` (the paper's extra rule for its warm-up data).

Of the kept steps from one state the one with the greatest gain stays, the first of equals.

`PAPER` is that. `RELEASED` differs as the authors' script does: the gain must exceed the threshold
rather than reach it, steps from a blank state are dropped, and one step a design stays rather than
one a state. Their rule looks at the rows of their simulator's report; here it looks at the kinds of
`protocols.hardware`, so lines and branches may not fall each for itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from coevolve.hdl.curation.states import average, falls, gain
from protocols.hardware_config import RejectionConfig
from protocols.transitions import Blank, DesignState, Graded, Transition, coverage_of

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

    one_per: Literal["state", "design", "step"] = "state"
    """Of which the step with the greatest gain stays; ``step`` keeps all."""


def rule_of(settings: RejectionConfig) -> RejectionRule:
    """Return the rule that a run's settings name; one step a state stays."""
    return RejectionRule(
        least_gain=settings.least_gain,
        floor=settings.floor,
        no_kind_falls=settings.no_kind_falls,
    )


PAPER = RejectionRule()
RELEASED = RejectionRule(strict=True, from_blank=False, one_per="design")
WARM_UP = RejectionRule(floor=0.5)
"""The paper's, for stage 0."""

UNFILTERED = RejectionRule(least_gain=-1.0, no_kind_falls=False, one_per="step")
"""Keeps whatever has coverage: execution-validated, not coverage-guided."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A step, and whether it is kept."""

    transition: Transition
    reason: Reason
    gain: Fraction


def judge(state: DesignState, made: Graded, rule: RejectionRule = PAPER) -> Reason:
    """Return ``kept`` where the step by itself is worth training on, or why it is not."""
    before, after = coverage_of(state), coverage_of(made)
    if after is None:
        return "no_coverage"
    if average(after) < _exact(rule.floor):
        return "below_floor"
    if isinstance(state, Blank):
        if not rule.from_blank:
            return "blank_state"
    elif before is None:
        return "kept"
    risen, least = gain(state, made), _exact(rule.least_gain)
    if risen < least or (rule.strict and risen == least):
        return "too_little_gain"
    if rule.no_kind_falls and before is not None and falls(before, after):
        return "kind_fell"
    return "kept"


def most_gained(
    state: DesignState, made: Mapping[int, Graded], rule: RejectionRule = PAPER
) -> int | None:
    """Return which of several steps from ``state`` is worth training on; None where none is.

    Of those that are kept the one with the greatest gain, of equals the smallest index.
    """
    gains = {
        index: gain(state, each)
        for index, each in sorted(made.items())
        if judge(state, each, rule) == "kept"
    }
    return max(gains, key=lambda index: gains[index], default=None)


def reject(transitions: Sequence[Transition], rule: RejectionRule = PAPER) -> tuple[Judged, ...]:
    """Return every step in the order given, with what became of it."""
    judged = [
        Judged(
            transition=each,
            reason=judge(each.before, each.after, rule),
            gain=gain(each.before, each.after),
        )
        for each in transitions
    ]
    best: dict[str, Judged] = {}
    for each in judged:
        if each.reason == "kept":
            group = _group(each.transition, rule)
            best[group] = max(best.get(group, each), each, key=lambda found: found.gain)
    return tuple(
        each
        if each.reason != "kept" or best[_group(each.transition, rule)] is each
        else Judged(transition=each.transition, reason="outdone", gain=each.gain)
        for each in judged
    )


def kept(judged: Iterable[Judged]) -> tuple[Transition, ...]:
    """Return the steps to train on."""
    return tuple(each.transition for each in judged if each.reason == "kept")


def reasons(judged: Iterable[Judged]) -> dict[Reason, int]:
    """Return how many steps each reason befell."""
    return dict(Counter(each.reason for each in judged))


def _group(transition: Transition, rule: RejectionRule) -> str:
    match rule.one_per:
        case "state":
            return transition.state_key
        case "design":
            return transition.design_id
        case "step":
            return transition.transition_id


def _exact(share: float) -> Fraction:
    """Return the decimal that was written, not its nearest binary number."""
    return Fraction(repr(share))

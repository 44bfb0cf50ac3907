"""Worst-state selection: from which of a design's states the next steps are sampled.

Source: LLM4Cov (arXiv 2602.16953), section 3, with the tie rules of the authors' scripts. Out of
the drafts of one design, `select` picks up to three:

- of those whose simulation failed the one with the smallest id (ids are arbitrary);
- of those that ran, have coverage and are not yet at 100 %: the *worst* has the least coverage; the
  *median* has the lower median of the different coverages, so drafts that did equally count once;
  of equals the smallest id.

With ``prioritize`` "worst" the worst is always picked, the median only where it is more than
``gap`` above; with "median" it is the other way round.

`rounds` are the other arms: in each round every design gives its best, its worst, or a random
draft that was not picked before, until a budget is spent; if it does not suffice for a whole round,
designs are drawn. The authors' scripts compare best with random so; there a tie between bests goes
to the largest id, and a draft without coverage may be picked, as one that covers nothing. Worst is
here for arms of equal form, its ties to the smallest id.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from coevolve.environments.hdl.curation.states import average, exact
from protocols.hardware import Covered, NotCovered, Outcome
from protocols.transitions import DesignState, Graded, Transition

Arm = Literal["best", "worst", "uniform"]
Why = Literal["simulator_failure", "worst", "median", "best", "uniform"]

FULL = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A state of one design as selection sees it."""

    draft_id: str
    ran: bool
    """Whether the simulation came to its end."""

    coverage: Fraction | None
    """Overall average, 0..1; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class Pick:
    """A state from which steps are sampled next, and why."""

    draft_id: str
    why: Why


def draft(transition: Transition) -> Draft:
    """Return the state that a step led to."""
    return state_draft(transition.transition_id, transition.after)


def state_draft(draft_id: str, state: DesignState) -> Draft:
    """Return a state under its id; a blank one ran nothing."""
    if not isinstance(state, Graded):
        return Draft(draft_id=draft_id, ran=False, coverage=None)
    return _graded_draft(draft_id, state.outcome)


def _graded_draft(draft_id: str, outcome: Outcome) -> Draft:
    match outcome:
        case Covered(coverage=coverage):
            return Draft(draft_id=draft_id, ran=True, coverage=average(coverage))
        case NotCovered():
            return Draft(draft_id=draft_id, ran=True, coverage=None)
        case _:
            return Draft(draft_id=draft_id, ran=False, coverage=None)


def select(
    drafts: Sequence[Draft],
    *,
    prioritize: Literal["worst", "median"] = "worst",
    gap: float = 0.1,
) -> tuple[Pick, ...]:
    """Return the picks of one design: simulator failure, worst, median, as far as there are."""
    failed = [each.draft_id for each in drafts if not each.ran]
    picks = [Pick(draft_id=min(failed), why="simulator_failure")] if failed else []
    open_ = {each.draft_id: each.coverage for each in drafts if _can_improve(each)}
    coverages = sorted({coverage for coverage in open_.values() if coverage is not None})
    if not coverages:
        return tuple(picks)
    worst, median = coverages[0], coverages[(len(coverages) - 1) // 2]
    both = median - worst > exact(gap)
    wanted: tuple[tuple[Why, Fraction], ...] = (("worst", worst), ("median", median))
    for why, coverage in wanted:
        if both or why == prioritize:
            first = min(found for found, share in open_.items() if share == coverage)
            picks.append(Pick(draft_id=first, why=why))
    return tuple(picks)


def _can_improve(each: Draft) -> bool:
    return each.ran and each.coverage is not None and each.coverage < FULL


def rounds(
    designs: Mapping[str, Sequence[Draft]], *, arm: Arm, budget: int, generator: random.Random
) -> tuple[tuple[tuple[str, Pick], ...], ...]:
    """Return (design, pick) by round: at most ``budget`` picks, fewer where drafts run out."""
    left = {
        design: [each for each in drafts if each.coverage != FULL]
        for design, drafts in sorted(designs.items())
    }
    made: list[tuple[tuple[str, Pick], ...]] = []
    while budget > 0 and (available := [design for design in left if left[design]]):
        if budget < len(available):
            available = generator.sample(available, budget)
        budget -= len(available)
        made.append(tuple((name, _taken(left[name], arm, generator)) for name in available))
    return tuple(made)


def _taken(drafts: list[Draft], arm: Arm, generator: random.Random) -> Pick:
    """Take a draft out of those that are left."""
    match arm:
        case "best":
            chosen = max(drafts, key=lambda each: (each.ran, each.coverage or 0, each.draft_id))
        case "worst":
            chosen = min(drafts, key=lambda each: (each.ran, each.coverage or 0, each.draft_id))
        case "uniform":
            chosen = generator.choice(sorted(drafts, key=lambda each: each.draft_id))
    drafts.remove(chosen)
    return Pick(draft_id=chosen.draft_id, why=arm)

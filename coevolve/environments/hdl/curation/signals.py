"""CoEvolve's signals, read off coverage points: which designs and regions deserve more work.

Source: CoEvolve (arXiv 2604.15840), whose patterns are calls of tools; here a pattern is a coverage
point of a design, and a rollout shows it where its testbench covers it. All rollouts of one
function call are of one design and one frozen set of points; a failed simulation covers nothing
and counts as a rollout.

- *Forgetting*: a point that rollouts of one policy version covered and none of a later one did.
- *Boundary*: a group of rollouts of which some pass and some do not.
- *Rare*: a point that some rollouts covered, but less than a share ``theta`` of them.

Deviations: forgetting also tells how often chance alone does this (`Forgotten.chance`), because
with few rollouts it mostly does; a bound on it is the caller's to set, 1 being the paper's rule.

The rarity bonus is that of LLM4Cov's authors for online learning: a rollout earns the mean of
1 / (rollouts of its group that cover the point) over the points that it covers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """A point that was covered once and is not any more."""

    point: int
    """Index in the design's set of points."""

    score: float
    """Share of the earlier rollouts that covered it, 0..1."""

    chance: float
    """Probability that all rollouts which cover it were among the earlier ones, had nothing
    changed between the two versions."""


@dataclass(frozen=True, kw_only=True)
class Rare:
    """A point that is seldom covered."""

    point: int
    score: float
    """1 - share / theta: towards 1 the rarer it is, 0 at the bound."""

    rollouts: int
    """That covered it."""


def forgetting(
    before: Sequence[bytes], after: Sequence[bytes], *, chance_at_most: float = 1.0
) -> tuple[Forgotten, ...]:
    """Return the forgotten points, in their order.

    ``before`` and ``after`` are the `protocols.hardware.Coverage.hits` of the rollouts of the
    earlier and of the later version; b"" for one that failed. Nothing is forgotten where a version
    has no rollouts.
    """
    if not before or not after:
        return ()
    once, now = counts(before), counts(after)
    made: list[Forgotten] = []
    for point, hits in enumerate(once):
        if hits and not (point < len(now) and now[point]):
            chance = comb(len(before), hits) / comb(len(before) + len(after), hits)
            if chance <= chance_at_most:
                made.append(Forgotten(point=point, score=hits / len(before), chance=chance))
    return tuple(made)


def boundary(passed: Sequence[bool]) -> float:
    """Return 4 p (1 - p) of the group's pass rate p: 0 where there is no signal, at most 1."""
    if not passed:
        return 0.0
    rate = sum(passed) / len(passed)
    return 4 * rate * (1 - rate)


def rare(rollouts: Sequence[bytes], *, theta: float, points: int = 0) -> tuple[Rare, ...]:
    """Return the rare points, in their order.

    With ``points``, the size of the set, those that no rollout covered are told too, with score 1;
    else only what was seen at least once, as in the paper.
    """
    if not rollouts:
        return ()
    seen = counts(rollouts)
    seen += [0] * (points - len(seen))
    return tuple(
        Rare(point=point, score=1 - hits / len(rollouts) / theta, rollouts=hits)
        for point, hits in enumerate(seen[:points] if points else seen)
        if hits / len(rollouts) < theta and (hits or points)
    )


def rarity_bonuses(group: Sequence[bytes]) -> tuple[float, ...]:
    """Return each rollout's bonus, 0..1; 0 where it covers nothing."""
    seen = counts(group)
    return tuple(_bonus(hits, seen) for hits in group)


def counts(rollouts: Sequence[bytes]) -> list[int]:
    """Return by point how many rollouts cover it; bits beyond a shorter one count as not."""
    seen = [0] * (8 * max((len(hits) for hits in rollouts), default=0))
    for hits in rollouts:
        for point in _covered(hits):
            seen[point] += 1
    return seen


def _covered(hits: bytes) -> list[int]:
    return [
        8 * index + bit for index, byte in enumerate(hits) for bit in range(8) if byte >> bit & 1
    ]


def _bonus(hits: bytes, seen: Sequence[int]) -> float:
    covered = _covered(hits)
    return sum(1 / seen[point] for point in covered) / len(covered) if covered else 0.0

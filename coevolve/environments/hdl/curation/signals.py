"""Counts how many rollouts of a group cover each point, and computes the rarity bonus.

The rarity bonus is that of LLM4Cov's authors for online learning: the mean, over the points that a
rollout covers, of 1 / (rollouts of its group that cover the point). A failed simulation covers
nothing.
"""

from collections.abc import Sequence


def rarity_bonuses(group: Sequence[bytes]) -> tuple[float, ...]:
    """Return each rollout's bonus, 0..1; 0 if it covers nothing."""
    seen = counts(group)
    return tuple(_bonus(hits, seen) for hits in group)


def counts(rollouts: Sequence[bytes]) -> list[int]:
    """Return for each point how many rollouts cover it; missing bits count as uncovered."""
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

"""What advantages are made of: each rollout's reward, with its bonus where the run has one.

The bonus is that of LLM4Cov's authors for online learning (`hdl.curation.signals`), on
their scale of rewards, 0 or 1 to 2, where theirs is halved. What the journal calls a reward stays
without it.
"""

from collections.abc import Sequence

from coevolve.environments.hdl.curation.signals import rarity_bonuses
from protocols.rollouts import Rollout
from protocols.transitions import coverage_of


def shaped(rollouts: Sequence[Rollout], rarity_bonus: float) -> list[float]:
    """Return the rewards of a whole group, ``rarity_bonus`` being the weight of the bonus."""
    rewards = [rollout.reward for rollout in rollouts]
    if not rarity_bonus:
        return rewards
    bonuses = rarity_bonuses([_hits(rollout) for rollout in rollouts])
    return [reward + rarity_bonus * bonus for reward, bonus in zip(rewards, bonuses, strict=True)]


def _hits(rollout: Rollout) -> bytes:
    coverage = coverage_of(rollout.graded) if rollout.graded else None
    return coverage.hits if coverage else b""

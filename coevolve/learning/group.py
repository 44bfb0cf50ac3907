"""The rollouts of one task at one policy version: as collected, and as a step trains on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.learning.rows import Conversation
from protocols.generation import Grammar
from protocols.learning import TrainedGroup
from protocols.rollouts import Rollout


@dataclass(frozen=True, kw_only=True)
class Group:
    """A complete group."""

    group_id: str
    number: int
    task_id: str
    sequences: tuple[int, ...]
    """Every record of the group, including failed ones; all are acknowledged together."""

    rollouts: tuple[tuple[int, Rollout], ...]
    """(sequence, rollout) pairs by index, without failed rollouts."""

    @property
    def successes(self) -> int:
        """Return the number of successful rollouts."""
        return sum(rollout.succeeded for _, rollout in self.rollouts)

    @property
    def versions(self) -> range:
        """Return the policy versions that may have written part of the group."""
        newest = max(rollout.version_max for _, rollout in self.rollouts)
        return range(self.oldest_version, newest + 1)

    @property
    def oldest_version(self) -> int:
        """Return the oldest policy version that sampled any token of the group."""
        return min(rollout.version_min for _, rollout in self.rollouts)


Shape = Callable[[Sequence[Rollout]], Sequence[float]]
"""A function that returns the rewards to compare within a whole group."""


def own_rewards(rollouts: Sequence[Rollout]) -> tuple[float, ...]:
    """Return the rewards unchanged; a `Shape`."""
    return tuple(rollout.reward for rollout in rollouts)


@dataclass(frozen=True, kw_only=True)
class BatchGroup:
    """One group of a batch, with all data that the step needs."""

    record: TrainedGroup
    rollouts: tuple[Rollout, ...]
    reference: Conversation | None
    """A validated solution, written as the policy would write it; set if ``record.use`` is
    ``imitation``."""

    rewards: tuple[float, ...] = ()
    """Rewards to compare, by rollout; empty means the rollouts' own rewards."""

    worthy: tuple[int, ...] | None = None
    """Positions of the rollouts for fine-tuning; None if only the rewards decide."""

    grammar: Grammar | None = None
    """The grammar that restricted the policy's answers."""

    @property
    def compared_rewards(self) -> tuple[float, ...]:
        """Return the rewards to compare, by rollout."""
        return self.rewards or own_rewards(self.rollouts)

"""What the policy gradients have in common; each has a file of `coevolve.learning.objectives`.

The component is the clipped surrogate, weighted by truncated importance sampling between the engine
and the trainer (`importance`); the target of a token is its advantage (`credit`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal

from coevolve.learning.losses import credit
from coevolve.learning.losses.surrogate import Surrogate
from coevolve.learning.objective import Objective
from coevolve.learning.rows import Conversation, Row, Scored, Stream, sampled
from protocols.learner_config import LearnerConfig
from protocols.objectives import Aggregation, BelowOne, Bound

if TYPE_CHECKING:
    import torch

    from coevolve.learning.group import BatchGroup


class PolicyGradient(Objective, frozen=True, kw_only=True):
    """Settings of every policy gradient."""

    label: ClassVar[str] = "pg_loss"
    is_on_policy: ClassVar[bool] = True
    compares_rewards: ClassVar[bool] = True
    scale_rewards: ClassVar[bool] = True
    """Whether advantages are divided by the standard deviation of the group's rewards."""

    ratio: ClassVar[Literal["token", "sequence"]] = "token"
    """Whether the ratio of new to old probability is computed per token or per conversation; most
    rollouts have one."""

    clip_low: BelowOne = 0.2
    """How far the ratio of new to old probability may fall below 1 before it stops counting."""

    clip_high: Bound = 0.2
    """How far the ratio of new to old probability may rise above 1 before it stops counting."""

    aggregation: Aggregation = "constant"

    @property
    def surrogate(self) -> Surrogate:
        """Return the objective as a clipped surrogate."""
        return Surrogate(
            scale_rewards=self.scale_rewards,
            ratio=self.ratio,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
        )

    def aggregation_rule(self) -> Aggregation:
        return self.aggregation

    def rows(self, group: "BatchGroup", learner: LearnerConfig) -> Sequence[Row]:
        plain = self.surrogate.advantages

        def compare(rewards: Sequence[float]) -> list[float]:
            return [a if a >= 0 else learner.negative_weight * a for a in plain(rewards)]

        if learner.credit == "turn":
            advantages = credit.by_turn(group.rollouts, compare)
        else:
            advantages = credit.by_rollout(group.rollouts, compare(group.compared_rewards))
        return [
            row
            for rollout, of_tokens in zip(group.rollouts, advantages, strict=True)
            for row in self._rows(sampled(rollout, group.grammar), of_tokens)
        ]

    def _rows(
        self, conversations: Sequence[Conversation], advantages: Sequence[float]
    ) -> Iterator[Row]:
        """Yield a row for each conversation of a rollout."""
        of_tokens = iter(advantages)
        for side in conversations:
            targets = list(islice(of_tokens, side.written))
            yield Row(sides=(side,), streams=(Stream(component=self, targets=targets),))

    def losses(self, scored: Scored) -> "torch.Tensor":
        return scored.importance * self.surrogate.losses(
            scored.logprobs, scored.start, scored.targets, scored.lengths
        )

    def measures(self, scored: Scored) -> "Mapping[str, torch.Tensor]":
        return {
            "critic/advantages/mean": scored.targets,
            "actor/pg_clipfrac": self.surrogate.is_clipped(
                scored.logprobs, scored.start, scored.targets, scored.lengths
            ),
        }

"""DPO: Direct Preference Optimization (arXiv 2305.18290).

    h(y) = log pi(y | x) - log pi_ref(y | x)
    loss = mean over pairs of -log sigmoid(beta (h(chosen) - h(rejected)))

The log-probability of a rollout is the sum over the tokens that the policy wrote, in all of its
conversations; the environment's tokens between them do not count. The simulator's rewards make the
pairs: two rollouts of one task with different rewards. The reference is the run's initial model.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from coevolve.learning.objective import Objective
from coevolve.learning.rows import Row, Scored, Stream, conversations
from protocols.learner_config import LearnerConfig
from protocols.objectives import Bound

if TYPE_CHECKING:
    import torch

    from coevolve.learning.group import BatchGroup


class Dpo(Objective, frozen=True, kw_only=True, tag="dpo"):
    """Direct preference of a better over a worse rollout of one task."""

    label: ClassVar[str] = "preference_loss"
    is_per_row: ClassVar[bool] = True
    needs_initial_model: ClassVar[bool] = True

    beta: Bound = 0.1
    """How closely the policy stays to the reference model; larger is closer."""

    def rows(self, group: "BatchGroup", learner: LearnerConfig) -> Sequence[Row]:
        stream = Stream(component=self, targets="initial")
        sides = [conversations(rollout) for rollout in group.rollouts]
        return [
            Row(
                sides=(*sides[chosen], *sides[rejected]),
                sizes=(len(sides[chosen]), len(sides[rejected])),
                streams=(stream,),
            )
            for chosen, rejected in pairs([rollout.reward for rollout in group.rollouts])
        ]

    def losses(self, scored: Scored) -> "torch.Tensor":
        from torch.nn.functional import logsigmoid

        chosen_P, rejected_P = _gains(scored)
        return -logsigmoid(self.beta * (chosen_P - rejected_P))

    def measures(self, scored: Scored) -> "Mapping[str, torch.Tensor]":
        chosen_P, rejected_P = _gains(scored)
        return {
            "rewards/chosen": self.beta * chosen_P,
            "rewards/rejected": self.beta * rejected_P,
            "rewards/margins": self.beta * (chosen_P - rejected_P),
            "rewards/accuracies": chosen_P > rejected_P,
        }


def pairs(rewards_G: Sequence[float]) -> list[tuple[int, int]]:
    """Return (chosen, rejected) pairs: best and worst, second best and second worst, and so on.

    No rollout is in two pairs, and equal rewards make no pair. Ties are ordered by position.
    """
    order = sorted(range(len(rewards_G)), key=lambda index: -rewards_G[index])
    return [
        (chosen, rejected)
        for chosen, rejected in zip(order, reversed(order), strict=True)
        if rewards_G[chosen] > rewards_G[rejected]
    ]


def _gains(scored: Scored) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return h of the chosen and of the rejected side of each of P pairs."""
    gains_R = scored.sums(scored.logprobs - scored.targets)
    return gains_R[0::2], gains_R[1::2]

"""The optimizers of a policy: one for what the objective teaches, one for what is imitated.

Adam divides each step by the recent size of its gradients. With one optimizer for both, the larger
and steadier gradient of imitation sets that size, and the policy gradient hardly moves the weights
(measured in `coevolve/docs/results.md`). With an optimizer each, the learning rates alone decide
what each source moves. An optimizer takes no step where its source has nothing to teach: momentum
alone would repeat what earlier groups said.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from coevolve.learning.sharded.ranks import split_optimizer, whole, whole_optimizer
from protocols.learner_config import LearnerConfig

BETAS = (0.9, 0.98)
"""AdamW's decay rates; the shorter memory of squares suits gradients that change with the data."""

Teacher = Literal["objective", "imitation"]
"""Whose gradient an optimizer follows: `learner.objective`'s, or that of imitated references, fresh
ones and replayed ones together."""

TEACHERS: tuple[Teacher, ...] = ("objective", "imitation")


class Optimizers:
    """AdamW for each teacher, over the same parameters."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], learner: LearnerConfig) -> None:
        """Start without momentum. Weight decay belongs to the objective's optimizer alone."""
        self._parameters = list(parameters)
        self._learner = learner
        self._adam = self._fresh()

    def reset(self) -> None:
        """Forget all momentum."""
        self._adam = self._fresh()

    def zero_grad(self) -> None:
        """Forget the gradient."""
        for parameter in self._parameters:
            parameter.grad = None

    def clip(self) -> float:
        """Scale the gradient down to ``learner.max_grad_norm``; return its norm before that."""
        limit = self._learner.max_grad_norm
        return float(whole(torch.nn.utils.clip_grad_norm_(self._parameters, limit)))

    def step(self, teacher: Teacher, rate: float) -> None:
        """Move the weights by the gradient of one teacher."""
        adam = self._adam[teacher]
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()

    def state(self) -> dict[str, Any]:
        """Return all momentum, whole on every rank."""
        return {name: whole_optimizer(adam.state_dict()) for name, adam in self._adam.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` returned, on any number of ranks."""
        for name, adam in self._adam.items():
            adam.load_state_dict(split_optimizer(state[name], self._parameters))

    def _fresh(self) -> dict[Teacher, torch.optim.AdamW]:
        return {
            teacher: torch.optim.AdamW(
                self._parameters,
                lr=self._learner.learning_rate,
                betas=BETAS,
                weight_decay=self._learner.weight_decay if teacher == "objective" else 0.0,
            )
            for teacher in TEACHERS
        }

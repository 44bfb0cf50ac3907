"""The optimizers of a policy: one for the objective and one for imitation.

Adam divides each step by the recent size of its gradients. With one optimizer for both, the larger
and steadier gradient of imitation determines that size, and the policy gradient hardly moves the
weights (measured in `coevolve/docs/results.md`). With separate optimizers, only the learning rates
determine how far each source moves the weights. An optimizer takes no step if its source has no
rows, because momentum alone would repeat the effect of earlier groups.
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
"""The source of an optimizer's gradient: `learner.objective`, or all imitated references, both new
and replayed."""

TEACHERS: tuple[Teacher, ...] = ("objective", "imitation")


class Optimizers:
    """One AdamW per teacher, over the same parameters."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], learner: LearnerConfig) -> None:
        """Start without momentum. Only the objective's optimizer uses weight decay."""
        self._parameters = list(parameters)
        self._learner = learner
        self._adam = self._fresh()

    def reset(self) -> None:
        """Reset all momentum."""
        self._adam = self._fresh()

    def zero_grad(self) -> None:
        """Clear the gradient."""
        for parameter in self._parameters:
            parameter.grad = None

    def clip(self) -> float:
        """Scale the gradient down to ``learner.max_grad_norm``; return its norm before scaling."""
        limit = self._learner.max_grad_norm
        return float(whole(torch.nn.utils.clip_grad_norm_(self._parameters, limit)))

    def step(self, teacher: Teacher, rate: float) -> None:
        """Update the weights by the gradient of one teacher."""
        adam = self._adam[teacher]
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()

    def state(self) -> dict[str, Any]:
        """Return all momentum, unsharded, on every rank."""
        return {name: whole_optimizer(adam.state_dict()) for name, adam in self._adam.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the result of ``state``, on any number of ranks."""
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

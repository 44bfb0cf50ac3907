"""The optimizers of a policy: one for the objective and one for imitation.

Adam divides each step by the recent size of its gradients. With one optimizer for both, the larger
and steadier gradient of imitation determines that size, and the policy gradient hardly moves the
weights (measured in `coevolve/docs/figures.md`). With separate optimizers, only the learning rates
determine how far each source moves the weights. An optimizer takes no step if its source has no
rows, because momentum alone would repeat the effect of earlier groups.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Collection, Mapping
from typing import Literal

import torch

from coevolve.learning.sharded.ranks import whole
from protocols.learner_config import LearnerConfig

BETAS = (0.9, 0.98)
"""AdamW's decay rates; the shorter memory of squares suits gradients that change with the data."""

Teacher = Literal["objective", "imitation"]
"""The source of an optimizer's gradient: `learner.objective`, or all imitated references, both new
and replayed."""

TEACHERS: tuple[Teacher, ...] = ("objective", "imitation")


class Optimizers:
    """One AdamW per teacher, over the same parameters."""

    def __init__(
        self, parameters: Mapping[str, torch.nn.Parameter], learner: LearnerConfig
    ) -> None:
        """Start without momentum. Only the objective's optimizer uses weight decay.

        On a GPU, a step is one kernel (``fused``).
        """
        self._parameters = dict(parameters)
        self._fused = all(each.device.type == "cuda" for each in parameters.values())
        self._learner = learner
        self._adam = self._fresh()

    def reset(self) -> None:
        self._adam = self._fresh()

    def zero_grad(self) -> None:
        """Clear the gradient."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def clip(self) -> float:
        """Scale the gradient down to ``learner.max_grad_norm``; return its norm before scaling."""
        limit = self._learner.max_grad_norm
        return float(whole(torch.nn.utils.clip_grad_norm_(self._parameters.values(), limit)))

    def step(self, teacher: Teacher, rate: float) -> None:
        """Update the weights by the gradient of one teacher."""
        adam = self._adam[teacher]
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()

    def moments(self) -> dict[str, torch.Tensor]:
        """Return all momentum of this rank, by teacher, parameter and kind."""
        return {
            f"{teacher}.{name}.{kind}": value
            for teacher, adam in self._adam.items()
            for name, parameter in self._parameters.items()
            for kind, value in adam.state.get(parameter, {}).items()
        }

    def begin(self, names: Collection[str]) -> None:
        """Begin the momentum that ``names``, the keys of `moments`, list; it is zero."""
        for teacher, adam in self._adam.items():
            for name, parameter in self._parameters.items():
                if f"{teacher}.{name}.step" in names:
                    adam.state[parameter] = {
                        "step": torch.zeros((), device=parameter.device if self._fused else None),
                        "exp_avg": torch.zeros_like(parameter),
                        "exp_avg_sq": torch.zeros_like(parameter),
                    }

    def _fresh(self) -> dict[Teacher, torch.optim.AdamW]:
        return {
            teacher: torch.optim.AdamW(
                self._parameters.values(),
                lr=self._learner.learning_rate,
                betas=BETAS,
                weight_decay=self._learner.weight_decay if teacher == "objective" else 0.0,
                fused=self._fused,
            )
            for teacher in TEACHERS
        }

"""The interface of a training objective.

An objective is one file with one subclass of `Objective`: its settings are the fields, its formula
is in ``losses``, and ``rows`` says what it trains on. `coevolve.learning.objective_registry` finds
it by name; nothing else has to know it. Its module is imported when settings are read, so torch,
which takes seconds, is best imported where it is used.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coevolve.learning.losses import credit
from coevolve.learning.rows import Row, Scored
from protocols.learner_config import LearnerConfig
from protocols.objectives import Aggregation
from protocols.rollouts import Rollout

if TYPE_CHECKING:
    import torch

    from coevolve.learning.group import BatchGroup


class Objective(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """An objective with its settings, and the `coevolve.learning.rows.Component` of its rows."""

    label: ClassVar[str] = "objective_loss"
    is_per_row: ClassVar[bool] = False
    is_on_policy: ClassVar[bool] = False
    """Whether it trains on samples of the policy, as policy gradients do: `rows.sampled`. Rollouts
    of other authors are then imitated, and ``learner.kl_coefficient`` applies."""

    compares_rewards: ClassVar[bool] = False
    """Whether it is a policy gradient, to which ``learner.credit`` and ``learner.negative_weight``
    apply."""

    needs_initial_model: ClassVar[bool] = False
    """Whether a stream has the target ``initial``."""

    def faults(self, learner: LearnerConfig) -> Iterable[tuple[bool, str]]:
        """Return (whether it is broken, message) for each rule about the run's other settings."""
        del learner
        return ()

    def is_informative(
        self, rollouts: Sequence[Rollout], rewards: Sequence[float], learner: LearnerConfig
    ) -> bool:
        """Return whether a group teaches something; by default, whether its rewards differ."""
        if learner.credit == "turn":
            return credit.is_informative(rollouts)
        return len(set(rewards)) > 1

    def aggregation_rule(self) -> Aggregation | None:
        """Return how token losses become a step's loss.

        None: as the mean over all tokens that the step trains on, those of imitation and replay
        included.
        """
        return None

    def rows(self, group: "BatchGroup", learner: LearnerConfig) -> Sequence[Row]:
        """Return what to train on for an informative group."""
        raise NotImplementedError

    def losses(self, scored: Scored) -> "torch.Tensor":
        raise NotImplementedError

    def measures(self, scored: Scored) -> "Mapping[str, torch.Tensor]":
        del scored
        return {}


def needs_initial_model(objective: Objective, learner: LearnerConfig) -> bool:
    measured = learner.kl_coefficient > 0 or learner.divergence_every > 0
    return objective.needs_initial_model or (objective.is_on_policy and measured)

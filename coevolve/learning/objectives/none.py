"""No objective: the step learns from imitation alone, for ablations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coevolve.learning.objective import Objective
from coevolve.learning.rows import Row
from protocols.learner_config import LearnerConfig
from protocols.objectives import Aggregation

if TYPE_CHECKING:
    from coevolve.learning.group import BatchGroup


class NoObjective(Objective, frozen=True, kw_only=True, tag="none"):
    """Nothing but imitation, for ablations.

    Groups whose rollouts differ fill a step's batch as with a policy gradient, and teach nothing.
    """

    def aggregation_rule(self) -> Aggregation:
        return "constant"

    def rows(self, group: "BatchGroup", learner: LearnerConfig) -> Sequence[Row]:
        return ()

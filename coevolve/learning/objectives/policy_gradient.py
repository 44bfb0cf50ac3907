"""Which surrogate an objective of the config is."""

from typing import assert_never

from coevolve.learning.objectives import dapo, dr_grpo, grpo, gspo
from coevolve.learning.objectives.surrogate import Surrogate
from protocols.objectives import Dapo, DrGrpo, Grpo, Gspo, PolicyGradient


def surrogate(objective: PolicyGradient) -> Surrogate:
    """Return the objective in the terms of the clipped surrogate."""
    match objective:
        case Grpo():
            return grpo.surrogate(objective)
        case DrGrpo():
            return dr_grpo.surrogate(objective)
        case Dapo():
            return dapo.surrogate(objective)
        case Gspo():
            return gspo.surrogate(objective)
        case _:
            assert_never(objective)

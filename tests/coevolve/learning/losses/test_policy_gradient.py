import pytest

from coevolve.learning.losses.policy_gradient import PolicyGradient
from coevolve.learning.objectives.dapo import Dapo
from coevolve.learning.objectives.dr_grpo import DrGrpo
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.objectives.gspo import Gspo


@pytest.mark.parametrize("kind", [Grpo, DrGrpo, Dapo, Gspo])
def test_every_policy_gradient_takes_its_settings_from_the_config(kind: type[PolicyGradient]):
    objective = kind(clip_low=0.11, clip_high=0.12, aggregation="sequence_mean")
    surrogate = objective.surrogate
    assert (surrogate.clip_low, surrogate.clip_high) == (0.11, 0.12)
    assert objective.aggregation_rule() == "sequence_mean"
    assert surrogate.ratio == ("sequence" if kind is Gspo else "token")
    assert surrogate.scale_rewards == (kind is not DrGrpo)

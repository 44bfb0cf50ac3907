import pytest

from coevolve.learning.objectives import policy_gradient
from protocols.objectives import Dapo, DrGrpo, Grpo, Gspo, PolicyGradient


@pytest.mark.parametrize("kind", [Grpo, DrGrpo, Dapo, Gspo])
def test_every_policy_gradient_takes_its_settings_from_the_config(kind: type[PolicyGradient]):
    surrogate = policy_gradient.surrogate(
        kind(clip_low=0.11, clip_high=0.12, aggregation="sequence_mean")
    )
    assert (surrogate.clip_low, surrogate.clip_high) == (0.11, 0.12)
    assert surrogate.aggregation == "sequence_mean"
    assert surrogate.ratio == ("sequence" if kind is Gspo else "token")
    assert surrogate.scale_rewards == (kind is not DrGrpo)

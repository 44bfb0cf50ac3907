from coevolve.learning.objectives import policy_gradient
from protocols.objectives import DrGrpo

SURROGATE = policy_gradient.surrogate(DrGrpo())


def test_advantages_are_centred_only():
    assert SURROGATE.advantages([1, 0, 0, 0]) == [0.75, -0.25, -0.25, -0.25]
    assert SURROGATE.advantages([1.0] * 3) == [0.0] * 3


def test_losses_are_divided_by_a_constant():
    assert SURROGATE.aggregation == "constant"
    assert SURROGATE.ratio == "token"

from coevolve.learning.objectives.dr_grpo import DrGrpo

SURROGATE = DrGrpo().surrogate


def test_advantages_are_centred_only():
    assert SURROGATE.advantages([1, 0, 0, 0]) == [0.75, -0.25, -0.25, -0.25]
    assert SURROGATE.advantages([1.0] * 3) == [0.0] * 3


def test_losses_are_divided_by_a_constant():
    assert DrGrpo().aggregation_rule() == "constant"
    assert SURROGATE.ratio == "token"

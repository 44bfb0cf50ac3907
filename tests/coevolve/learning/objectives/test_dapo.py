import pytest
import torch

from coevolve.learning.objectives.dapo import Dapo

SURROGATE = Dapo().surrogate


def test_the_upper_bound_is_wider_than_the_lower():
    logprobs_N = torch.tensor([1.25, 1.4, 0.7]).log()
    losses_N = SURROGATE.losses(logprobs_N, torch.zeros(3), torch.tensor([1.0, 1.0, -1.0]), [3])
    assert losses_N.tolist() == pytest.approx([-1.25, -1.28, 0.8])


def test_losses_are_averaged_over_tokens():
    assert Dapo().aggregation_rule() == "token_mean"
    assert SURROGATE.advantages([1, 0]) == pytest.approx([1, -1])

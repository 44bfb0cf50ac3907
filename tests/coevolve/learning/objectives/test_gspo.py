import math

import pytest
import torch

from coevolve.learning.objectives.gspo import Gspo

SURROGATE = Gspo(clip_low=0.1, clip_high=0.1).surrogate


def test_the_ratio_is_the_geometric_mean_of_the_rollouts_tokens():
    logprobs_N = torch.tensor([1.1, 1.0, 0.95]).log()
    losses_N = SURROGATE.losses(logprobs_N, torch.zeros(3), torch.ones(3), [2, 1])
    assert losses_N.tolist() == pytest.approx([-math.sqrt(1.1), -math.sqrt(1.1), -0.95])


def test_a_rollout_is_clipped_as_a_whole():
    logprobs_N = torch.tensor([2.0, 1.0, 1.05]).log().requires_grad_()
    advantages_N = torch.ones(3)
    losses_N = SURROGATE.losses(logprobs_N, torch.zeros(3), advantages_N, [2, 1])
    (gradients_N,) = torch.autograd.grad(losses_N.sum(), logprobs_N)
    assert gradients_N.tolist() == pytest.approx([0.0, 0.0, -1.05])
    clipped_N = SURROGATE.is_clipped(logprobs_N, torch.zeros(3), advantages_N, [2, 1])
    assert clipped_N.tolist() == [True, True, False]


def test_at_ratio_1_every_rollout_weighs_the_same_whatever_its_length():
    logprobs_N = torch.tensor([-1.0, -2.0, -3.0, -1.0], requires_grad=True)
    losses_N = SURROGATE.losses(logprobs_N, logprobs_N.detach(), torch.ones(4), [3, 1])
    per_sequence = losses_N[:3].mean() + losses_N[3]
    (gradients_N,) = torch.autograd.grad(per_sequence, logprobs_N)
    assert gradients_N.tolist() == pytest.approx([-1 / 3, -1 / 3, -1 / 3, -1.0])


def test_the_papers_bounds_are_the_default():
    surrogate = Gspo().surrogate
    assert (surrogate.clip_low, surrogate.clip_high) == (3e-4, 4e-4)
    assert Gspo().aggregation_rule() == "sequence_mean"

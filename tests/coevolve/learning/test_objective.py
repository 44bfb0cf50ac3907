import math
import random

import pytest
import torch

from coevolve.learning import objective


def test_advantages_by_hand():
    assert objective.advantages([1, 0, 0, 0], normalize=True) == pytest.approx(
        [math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)]
    )
    assert objective.advantages([1, 0, 0, 0], normalize=False) == [0.75, -0.25, -0.25, -0.25]


def test_equal_rewards_have_no_advantage():
    assert objective.advantages([0.1] * 7, normalize=True) == [0.0] * 7
    assert objective.advantages([1.0] * 3, normalize=False) == [0.0] * 3


def test_the_importance_weight_is_truncated_above_only_and_carries_no_gradient():
    start_N = torch.tensor([-1.0, -1.0, -3.0], requires_grad=True)
    sampler_N = torch.tensor([-1.0, -3.0, -1.0])
    weights_N = objective.importance_weights(start_N, sampler_N, cap=2.0)
    assert weights_N.tolist() == pytest.approx([1.0, 2.0, math.exp(-2)])
    assert not weights_N.requires_grad


def test_the_clip_binds_where_the_ratio_runs_ahead_of_the_advantage():
    start_N = torch.zeros(4)
    logprobs_N = torch.tensor([1.5, 1.5, 0.5, 0.5]).log().requires_grad_()
    advantages_N = torch.tensor([1.0, -1.0, 1.0, -1.0])
    bounds = {"low": 0.2, "high": 0.28}
    losses_N = objective.clipped_losses(logprobs_N, start_N, advantages_N, **bounds)
    assert losses_N.tolist() == pytest.approx([-1.28, 1.5, -0.5, 0.8])
    (gradients_N,) = torch.autograd.grad(losses_N.sum(), logprobs_N)
    assert gradients_N.tolist() == pytest.approx([0.0, 1.5, -0.5, 0.0])
    clipped_N = objective.is_clipped(logprobs_N, start_N, advantages_N, **bounds)
    assert clipped_N.tolist() == [True, False, False, True]


def test_at_ratio_1_the_gradient_is_the_plain_policy_gradients():
    logprobs_N = torch.tensor([-0.1, -2.0, -5.0], requires_grad=True)
    advantages_N = torch.tensor([1.5, -0.5, 0.0])
    losses_N = objective.clipped_losses(
        logprobs_N, logprobs_N.detach(), advantages_N, low=0.2, high=0.28
    )
    (clipped_N,) = torch.autograd.grad(losses_N.sum(), logprobs_N)
    (plain_N,) = torch.autograd.grad(-(logprobs_N * advantages_N).sum(), logprobs_N)
    assert torch.equal(clipped_N, plain_N)


def test_the_divergence_estimate_by_hand():
    logprobs_N = torch.tensor([0.5, 0.5]).log()
    reference_N = torch.tensor([0.5, 0.25]).log()
    assert objective.kl_losses(logprobs_N, reference_N).tolist() == pytest.approx(
        [0.0, 0.5 - math.log(0.5) - 1]
    )


def test_the_mean_divergence_estimate_under_the_policy_is_the_divergence():
    policy, reference = [0.7, 0.2, 0.1], [0.3, 0.3, 0.4]
    estimates_N = objective.kl_losses(torch.tensor(policy).log(), torch.tensor(reference).log())
    mean = sum(p * float(k) for p, k in zip(policy, estimates_N, strict=True))
    exact = sum(p * math.log(p / r) for p, r in zip(policy, reference, strict=True))
    assert mean == pytest.approx(exact)


def test_imitation_is_a_weighted_likelihood():
    losses_N = objective.imitation_losses(torch.tensor([-1.0, -0.5]), torch.tensor([8.0, 2.0]))
    assert losses_N.tolist() == [8.0, 1.0]


def slow_loss(
    logprob: float, start: float, sampler: float, advantage: float, bounds: tuple[float, float]
) -> float:
    """One token's loss with nothing but floats."""
    ratio = math.exp(logprob - start)
    kept = min(max(ratio, 1 - bounds[0]), 1 + bounds[1])
    importance = min(math.exp(start - sampler), 2.0)
    return -importance * min(ratio * advantage, kept * advantage)


def test_a_slow_independent_implementation_agrees():
    rng = random.Random(3)
    tokens = [[rng.uniform(-3, 0) for _ in range(3)] + [rng.gauss(0, 1)] for _ in range(500)]
    logprobs_N, start_N, sampler_N, advantages_N = torch.tensor(tokens, dtype=torch.float64).T
    fast_N = objective.importance_weights(start_N, sampler_N, cap=2.0) * objective.clipped_losses(
        logprobs_N, start_N, advantages_N, low=0.2, high=0.28
    )
    slow = [slow_loss(*token, bounds=(0.2, 0.28)) for token in tokens]
    assert fast_N.tolist() == pytest.approx(slow)

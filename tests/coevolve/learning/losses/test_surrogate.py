import math
import random
from collections.abc import Sequence

import pytest
import torch

from coevolve.learning.losses import importance
from coevolve.learning.losses.surrogate import Surrogate, spread

CLIPPED = Surrogate(scale_rewards=True, ratio="token", clip_low=0.2, clip_high=0.28)
BY_SEQUENCE = Surrogate(scale_rewards=True, ratio="sequence", clip_low=0.2, clip_high=0.28)


def test_the_clip_binds_where_the_ratio_runs_ahead_of_the_advantage():
    logprobs_N = torch.tensor([1.5, 1.5, 0.5, 0.5]).log().requires_grad_()
    advantages_N = torch.tensor([1.0, -1.0, 1.0, -1.0])
    losses_N = CLIPPED.losses(logprobs_N, torch.zeros(4), advantages_N, [4])
    assert losses_N.tolist() == pytest.approx([-1.28, 1.5, -0.5, 0.8])
    (gradients_N,) = torch.autograd.grad(losses_N.sum(), logprobs_N)
    assert gradients_N.tolist() == pytest.approx([0.0, 1.5, -0.5, 0.0])
    clipped_N = CLIPPED.is_clipped(logprobs_N, torch.zeros(4), advantages_N, [4])
    assert clipped_N.tolist() == [True, False, False, True]


def test_at_ratio_1_the_gradient_is_the_plain_policy_gradients():
    logprobs_N = torch.tensor([-0.1, -2.0, -5.0], requires_grad=True)
    advantages_N = torch.tensor([1.5, -0.5, 0.0])
    losses_N = CLIPPED.losses(logprobs_N, logprobs_N.detach(), advantages_N, [1, 2])
    (clipped_N,) = torch.autograd.grad(losses_N.sum(), logprobs_N)
    (plain_N,) = torch.autograd.grad(-(logprobs_N * advantages_N).sum(), logprobs_N)
    assert torch.equal(clipped_N, plain_N)


def test_a_value_is_spread_over_the_tokens_of_its_rollout():
    values = [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)]
    assert spread(values, [2, 0, 1]).tolist() == [1.0, 1.0, 3.0]
    assert spread([], []).tolist() == []


def slow_loss(
    token: tuple[float, float, float, float], mean_difference: float | None, cap: float
) -> float:
    """Return one token's loss with plain floats; a mean difference gives the rollout's ratio."""
    logprob, start, sampler, advantage = token
    ratio = math.exp(logprob - start if mean_difference is None else mean_difference)
    kept = min(max(ratio, 0.8), 1.28)
    return -min(math.exp(start - sampler), cap) * min(ratio * advantage, kept * advantage)


@pytest.mark.parametrize("surrogate", [CLIPPED, BY_SEQUENCE], ids=["token", "sequence"])
def test_a_slow_independent_implementation_agrees(surrogate: Surrogate):
    rng = random.Random(3)
    lengths = [rng.randint(0, 9) for _ in range(80)]
    rollouts: list[list[tuple[float, float, float, float]]] = [
        [(rng.uniform(-3, 0), rng.uniform(-3, 0), rng.uniform(-3, 0), side) for _ in range(n)]
        for n, side in zip(lengths, (rng.gauss(0, 1) for _ in lengths), strict=True)
    ]
    tokens = [token for rollout in rollouts for token in rollout]
    logprobs_N, start_N, sampler_N, advantages_N = torch.tensor(tokens, dtype=torch.float64).T
    ratios_N = importance.ratios(start_N, sampler_N, lengths, level="token")
    losses_N = surrogate.losses(logprobs_N, start_N, advantages_N, lengths)
    assert (ratios_N.clamp(max=2.0) * losses_N).tolist() == pytest.approx(
        [
            slow_loss(token, mean_difference(rollout, surrogate), 2.0)
            for rollout in rollouts
            for token in rollout
        ]
    )


def mean_difference(
    rollout: Sequence[tuple[float, float, float, float]], surrogate: Surrogate
) -> float | None:
    if surrogate.ratio == "token":
        return None
    return sum(logprob - start for logprob, start, _, _ in rollout) / len(rollout)

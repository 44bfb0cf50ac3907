import math

import pytest
import torch

from coevolve.learning.objectives import dpo
from coevolve.learning.rows import Scored


def losses(chosen: torch.Tensor, rejected: torch.Tensor, beta: float) -> torch.Tensor:
    """Return the losses of pairs whose sides have two tokens, with these sums of h."""
    sums = torch.stack([chosen, rejected], dim=1).flatten()
    targets = torch.full((2 * len(sums),), -1.0)
    logprobs = torch.stack([sums, torch.zeros(len(sums))], dim=1).flatten() - 1.0
    return dpo.Dpo(beta=beta).losses(
        Scored(
            logprobs=logprobs,
            start=logprobs.detach(),
            importance=torch.ones(len(logprobs)),
            targets=targets,
            lengths=[2] * len(sums),
        )
    )


def test_the_loss_by_hand():
    losses_P = losses(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 3.0]), 0.5)
    assert losses_P.tolist() == pytest.approx(
        [math.log(1 + math.exp(-1.0)), math.log(1 + math.exp(1.5))]
    )


def test_its_gradient_is_beta_times_the_probability_of_the_wrong_order():
    better_P = torch.tensor([0.3], requires_grad=True)
    loss = losses(better_P, torch.tensor([-0.2]), 2.0).sum()
    (gradient,) = torch.autograd.grad(loss, better_P)
    assert gradient.item() == pytest.approx(-2.0 / (1 + math.exp(1.0)))


def test_the_best_is_paired_with_the_worst_and_nobody_twice():
    assert dpo.pairs([0.0, 1.0, 0.5, 0.9]) == [(1, 0), (3, 2)]
    assert dpo.pairs([1.0, 0.0, 0.0, 0.0]) == [(0, 3)]
    assert dpo.pairs([1.0, 1.0, 0.0]) == [(0, 2)]


def test_equal_rewards_make_no_pair():
    assert dpo.pairs([0.5, 0.5]) == []

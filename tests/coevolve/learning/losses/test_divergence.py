import math

import pytest
import torch

from coevolve.learning.losses import divergence


def test_the_estimate_by_hand():
    logprobs_N = torch.tensor([0.5, 0.5]).log()
    reference_N = torch.tensor([0.5, 0.25]).log()
    assert divergence.losses(logprobs_N, reference_N).tolist() == pytest.approx(
        [0.0, 0.5 - math.log(0.5) - 1]
    )


def test_its_mean_under_the_policy_is_the_divergence():
    policy, reference = [0.7, 0.2, 0.1], [0.3, 0.3, 0.4]
    estimates_N = divergence.losses(torch.tensor(policy).log(), torch.tensor(reference).log())
    mean = sum(p * float(k) for p, k in zip(policy, estimates_N, strict=True))
    exact = sum(p * math.log(p / r) for p, r in zip(policy, reference, strict=True))
    assert mean == pytest.approx(exact)


@pytest.mark.parametrize(
    ("scores", "reference"),
    [
        ([0.3, -0.2, 0.9], [0.3, 0.3, 0.4]),
        ([1.5, 0.0, -1.0], [0.1, 0.8, 0.1]),
        ([0.0, 0.0, 0.0], [0.6, 0.3, 0.1]),
        ([2.0, -2.0, 0.5], [0.2, 0.5, 0.3]),
    ],
)
def test_its_mean_gradient_is_that_of_the_divergence_in_the_other_direction(
    scores: list[float], reference: list[float]
):
    scores_V = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    reference_V = torch.tensor(reference, dtype=torch.float64)
    logprobs_V = scores_V.log_softmax(0)
    sampled = (logprobs_V.exp().detach() * divergence.losses(logprobs_V, reference_V.log())).sum()
    other = (reference_V * (reference_V.log() - scores_V.log_softmax(0))).sum()
    same = (logprobs_V.exp() * (scores_V.log_softmax(0) - reference_V.log())).sum()
    (found, reverse, forward) = (
        torch.autograd.grad(each, scores_V, retain_graph=True)[0].tolist()
        for each in (sampled, other, same)
    )
    assert found == pytest.approx(reverse)
    assert found != pytest.approx(forward, abs=1e-3)

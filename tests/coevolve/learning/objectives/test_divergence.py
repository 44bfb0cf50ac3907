import math

import pytest
import torch

from coevolve.learning.objectives import divergence


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

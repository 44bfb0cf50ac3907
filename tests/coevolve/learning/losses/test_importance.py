import math

import pytest
import torch

from coevolve.learning.losses import importance

START_N = torch.tensor([-1.0, -1.0, -3.0], requires_grad=True)
SAMPLER_N = torch.tensor([-1.0, -3.0, -1.0])


def test_a_tokens_ratio_is_its_own_and_carries_no_gradient():
    ratios_N = importance.ratios(START_N, SAMPLER_N, [2, 1], level="token")
    assert ratios_N.tolist() == pytest.approx([1.0, math.exp(2), math.exp(-2)])
    assert not ratios_N.requires_grad


def test_a_sequences_ratio_is_the_product_over_its_tokens():
    ratios_N = importance.ratios(START_N, SAMPLER_N, [2, 1], level="sequence")
    assert ratios_N.tolist() == pytest.approx([math.exp(2), math.exp(2), math.exp(-2)])
    whole_N = importance.ratios(START_N, SAMPLER_N, [3], level="sequence")
    assert whole_N.tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_without_correction_every_ratio_is_1():
    assert importance.ratios(START_N, SAMPLER_N, [3], level="off").tolist() == [1.0] * 3

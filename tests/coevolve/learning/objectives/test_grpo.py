import math

import pytest
import torch

from coevolve.learning.objectives.grpo import Grpo

PAPER = Grpo(clip_high=0.2, aggregation="sequence_mean").surrogate


def test_advantages_are_in_standard_deviations_of_the_group():
    assert PAPER.advantages([1, 0, 0, 0]) == pytest.approx(
        [math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)]
    )


def test_equal_rewards_have_no_advantage():
    assert PAPER.advantages([0.1] * 7) == [0.0] * 7


def test_the_papers_loss_by_hand():
    logprobs_N = torch.tensor([1.5, 1.1, 0.5]).log()
    losses_N = PAPER.losses(logprobs_N, torch.zeros(3), torch.tensor([1.0, 1.0, -1.0]), [2, 1])
    assert losses_N.tolist() == pytest.approx([-1.2, -1.1, 0.8])


def test_the_default_clips_higher_and_divides_by_a_constant():
    surrogate = Grpo().surrogate
    assert (surrogate.clip_low, surrogate.clip_high) == (0.2, 0.28)
    assert Grpo().aggregation_rule() == "constant"

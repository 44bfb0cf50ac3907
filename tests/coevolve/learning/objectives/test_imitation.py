import torch

from coevolve.learning.objectives import imitation


def test_imitation_is_a_weighted_likelihood():
    losses_N = imitation.losses(torch.tensor([-1.0, -0.5]), torch.tensor([8.0, 2.0]))
    assert losses_N.tolist() == [8.0, 1.0]

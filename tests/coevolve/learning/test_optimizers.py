from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from coevolve.learning.optimizers import BETAS, TEACHERS, Optimizers, Teacher
from coevolve.learning.sharded.ranks import ALONE
from coevolve.learning.sharded.shards import names_of, read_shards, write_shards
from protocols.config import LearnerConfig

RATE = 0.01
EPSILON = 1e-8
"""AdamW's addition to the root of the squares."""


def one(*values: float) -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))]


def named(weights: Sequence[torch.nn.Parameter]) -> dict[str, torch.nn.Parameter]:
    return {"w": weights[0]}


def update(
    optimizers: Optimizers,
    weights: Sequence[torch.nn.Parameter],
    teacher: Teacher,
    gradient: Sequence[float],
    rate: float = RATE,
) -> list[float]:
    """Make one update; return how far it moved the weights."""
    before = weights[0].detach().clone()
    optimizers.zero_grad()
    weights[0].grad = torch.tensor(gradient, dtype=torch.float64)
    optimizers.step(teacher, rate)
    return (weights[0].detach() - before).tolist()


def slow_adam(gradients: Sequence[float], rates: Sequence[float]) -> list[float]:
    """Return Adam's moves of one weight, computed with plain floats."""
    mean = square = 0.0
    moves: list[float] = []
    for number, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
        square = BETAS[1] * square + (1 - BETAS[1]) * gradient**2
        unbiased = mean / (1 - BETAS[0] ** number)
        root = (square / (1 - BETAS[1] ** number)) ** 0.5
        moves.append(-rate * unbiased / (root + EPSILON))
    return moves


def test_each_teacher_moves_the_weights_as_an_adam_of_its_own():
    weights = one(1.0)
    optimizers = Optimizers(named(weights), LearnerConfig())
    taught: dict[Teacher, list[float]] = {
        "objective": [0.3, -0.2, 0.1, 0.4],
        "imitation": [50.0, 40.0, -10.0, 30.0],
    }
    rates = [0.01, 0.02, 0.005, 0.01]
    moves: dict[Teacher, list[float]] = {"objective": [], "imitation": []}
    for number, rate in enumerate(rates):
        for teacher, gradients in taught.items():
            moves[teacher] += update(optimizers, weights, teacher, [gradients[number]], rate)
    for teacher, gradients in taught.items():
        assert moves[teacher] == pytest.approx(slow_adam(gradients, rates), rel=1e-6)


def test_the_size_of_one_teachers_gradient_does_not_change_what_the_other_moves():
    moves: list[list[float]] = []
    for size in (1e-3, 1.0, 1e6):
        weights = one(0.5, -0.5)
        optimizers = Optimizers(named(weights), LearnerConfig())
        moved: list[float] = []
        for number in range(5):
            moved += update(optimizers, weights, "objective", [0.1 - 0.05 * number, 0.02])
            update(optimizers, weights, "imitation", [size, -size * number])
        moves.append(moved)
    assert moves[1] == pytest.approx(moves[0], rel=1e-6)
    assert moves[2] == pytest.approx(moves[0], rel=1e-6)


def test_a_step_of_one_teacher_leaves_the_momentum_of_the_other_where_it_is():
    weights = one(0.0)
    optimizers = Optimizers(named(weights), LearnerConfig())
    update(optimizers, weights, "objective", [1.0])
    before = optimizers.moments()["objective.w.exp_avg"].clone()
    assert before.tolist() == pytest.approx([0.1])
    update(optimizers, weights, "imitation", [-9.0])
    moments = optimizers.moments()
    assert moments["objective.w.exp_avg"].equal(before)
    assert int(moments["objective.w.step"]) == 1
    assert moments["imitation.w.exp_avg"].tolist() == pytest.approx([-0.9])


def test_saved_optimizers_continue_unchanged(tmp_path: Path):
    weights = one(0.3, 0.7)
    optimizers = Optimizers(named(weights), LearnerConfig())
    update(optimizers, weights, "objective", [1.0, -2.0])
    update(optimizers, weights, "imitation", [3.0, 0.5])
    update(optimizers, weights, "imitation", [1.0, 0.5])
    write_shards(optimizers.moments(), tmp_path, ALONE)
    others = [torch.nn.Parameter(weights[0].detach().clone())]
    resumed = Optimizers(named(others), LearnerConfig())
    resumed.begin(names_of(tmp_path))
    read_shards(resumed.moments(), tmp_path, ALONE)
    for teacher in TEACHERS:
        expected = update(optimizers, weights, teacher, [-0.5, 0.25])
        assert update(resumed, others, teacher, [-0.5, 0.25]) == expected


def test_a_reset_forgets_the_momentum_of_both():
    weights = one(0.0)
    optimizers = Optimizers(named(weights), LearnerConfig())
    for teacher in TEACHERS:
        for _ in range(3):
            update(optimizers, weights, teacher, [1.0])
    optimizers.reset()
    assert optimizers.moments() == {}
    # A first step has the size of the rate, whatever the gradient.
    assert update(optimizers, weights, "objective", [-0.01]) == pytest.approx([RATE], rel=1e-5)
    assert update(optimizers, weights, "imitation", [-100.0]) == pytest.approx([RATE], rel=1e-5)


def test_weights_decay_in_the_objectives_steps_alone():
    weights = one(2.0)
    optimizers = Optimizers(named(weights), LearnerConfig(weight_decay=0.5))
    assert update(optimizers, weights, "imitation", [0.0]) == [0.0]
    assert update(optimizers, weights, "objective", [0.0]) == pytest.approx([-2.0 * RATE * 0.5])


def test_a_gradient_is_scaled_down_to_the_limit_and_its_norm_is_returned():
    weights = one(0.0, 0.0)
    optimizers = Optimizers(named(weights), LearnerConfig(max_grad_norm=0.5))
    weights[0].grad = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert optimizers.clip() == pytest.approx(5.0)
    assert weights[0].grad.tolist() == pytest.approx([0.3, 0.4], rel=1e-5)
    assert optimizers.clip() == pytest.approx(0.5, rel=1e-5)
    assert weights[0].grad.tolist() == pytest.approx([0.3, 0.4], rel=1e-5)
    optimizers.zero_grad()
    assert weights[0].grad is None

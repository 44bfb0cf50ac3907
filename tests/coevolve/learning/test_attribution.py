"""Letters: D entries of all parameters, N groups of a step."""

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch

from coevolve.learning.attribution import ENTRIES, Gauge, NoiseScale, Part, shares

Loss = Callable[[Sequence[torch.Tensor]], torch.Tensor]

LOSSES: Mapping[Part, Loss] = {
    "even": lambda weights: (weights[0] @ weights[1]).pow(2).sum(),
    "odd": lambda weights: weights[0].sin().sum() + 3.0 * weights[1].sum(),
    "imitation": lambda weights: weights[0].exp().sum(),
    "replay": lambda weights: (weights[1] ** 3).sum() * weights[0].mean(),
}


def some_parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float32))
        for shape in ((2, 3), (3,))
    ]


def apart(part: Part) -> torch.Tensor:
    """Return the gradient of one part alone, from a separate graph."""
    weights = some_parameters()
    found = torch.autograd.grad(LOSSES[part](weights), weights, materialize_grads=True)
    return torch.cat([each.flatten() for each in found])


def norm(*gradients: torch.Tensor) -> float:
    return float(torch.stack(gradients).sum(0).norm())


def measure(gauge: Gauge, weights: Sequence[torch.nn.Parameter], *parts: Part) -> None:
    """Add up the gradients of ``parts`` as a step does, after those of another teacher."""
    for each in weights:
        each.grad = None
    gauge.begin()
    for part in parts:
        LOSSES[part](weights).backward()
        gauge.added(part)


def test_the_norm_of_each_source_is_that_of_its_gradient_computed_apart():
    weights = some_parameters()
    gauge = Gauge(weights)
    measure(gauge, weights, "even", "odd")
    measure(gauge, weights, "imitation", "replay")
    sums = gauge.sums()
    even_D, odd_D = apart("even"), apart("odd")
    assert sums["gradient_even"] == pytest.approx(norm(even_D) ** 2, rel=1e-5)
    assert sums["gradient_odd"] == pytest.approx(norm(odd_D) ** 2, rel=1e-5)
    assert sums["gradient_halves"] == pytest.approx(float(even_D @ odd_D), rel=1e-5)
    found = shares(sums)
    assert found["source/objective/grad_norm"] == pytest.approx(norm(even_D, odd_D), rel=1e-5)
    assert found["source/imitation/grad_norm"] == pytest.approx(norm(apart("imitation")), rel=1e-5)
    assert found["source/replay/grad_norm"] == pytest.approx(norm(apart("replay")), rel=1e-5)


def test_a_source_without_rows_has_a_norm_of_0():
    weights = some_parameters()
    gauge = Gauge(weights)
    measure(gauge, weights, "odd")
    found = shares(gauge.sums())
    assert found["source/objective/grad_norm"] == pytest.approx(norm(apart("odd")), rel=1e-5)
    assert found["source/imitation/grad_norm"] == found["source/replay/grad_norm"] == 0.0


def test_sums_reset_after_an_update():
    weights = some_parameters()
    gauge = Gauge(weights)
    measure(gauge, weights, "even", "odd")
    gauge.moved("objective")
    assert gauge.sums() != {}
    assert gauge.sums() == {}


@torch.no_grad()
def move(weights: Sequence[torch.nn.Parameter], by_D: Sequence[float]) -> None:
    entries = iter(by_D)
    for each in weights:
        each += torch.tensor([next(entries) for _ in range(each.numel())]).reshape(each.shape)


def moves(objective_D: Sequence[float], imitation_D: Sequence[float]) -> dict[str, float]:
    weights = [torch.nn.Parameter(torch.zeros(2, 1)), torch.nn.Parameter(torch.zeros(1))]
    gauge = Gauge(weights)
    gauge.begin()
    move(weights, objective_D)
    gauge.moved("objective")
    gauge.begin()
    move(weights, imitation_D)
    gauge.moved("imitation")
    return shares(gauge.sums())


def test_the_shares_of_the_movement_by_hand():
    # The objective moves by (1, 0, 2), imitation by (1, 2, 0): together by (2, 2, 2), |d|^2 = 12,
    # of which 1 * 2 + 2 * 2 = 6 lie along either.
    found = moves((1.0, 0.0, 2.0), (1.0, 2.0, 0.0))
    assert found["source/movement"] == pytest.approx(math.sqrt(12))
    assert found["source/objective/movement_share"] == pytest.approx(0.5)
    assert found["source/imitation/movement_share"] == pytest.approx(0.5)
    # (3, 0, 0) and (0, 1, 0): |d|^2 = 10.
    found = moves((3.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    assert found["source/objective/movement_share"] == pytest.approx(0.9)
    assert found["source/imitation/movement_share"] == pytest.approx(0.1)
    # (2, 0, 0) and (-1, 0, 0): the second undoes half of the first.
    found = moves((2.0, 0.0, 0.0), (-1.0, 0.0, 0.0))
    assert found["source/movement"] == pytest.approx(1.0)
    assert found["source/objective/movement_share"] == pytest.approx(2.0)
    assert found["source/imitation/movement_share"] == pytest.approx(-1.0)


def test_the_shares_of_random_movements_add_up_to_1():
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        objective_D, imitation_D = torch.randn((2, 3), generator=generator).tolist()
        found = moves(objective_D, imitation_D)
        assert found["source/objective/movement_share"] + found[
            "source/imitation/movement_share"
        ] == pytest.approx(1.0, rel=1e-4)


def test_a_teacher_alone_has_the_whole_movement_and_without_any_there_are_no_shares():
    weights = some_parameters()
    gauge = Gauge(weights)
    gauge.begin()
    move(weights, [0.25] * 9)
    gauge.moved("imitation")
    found = shares(gauge.sums())
    assert found["source/movement"] == pytest.approx(0.75)
    assert found["source/imitation/movement_share"] == pytest.approx(1.0)
    assert found["source/objective/movement_share"] == 0.0
    nothing = shares({})
    assert set(nothing.values()) == {0.0}


def test_a_sample_of_many_entries_represents_all():
    count = 3 * ENTRIES
    generator = torch.Generator().manual_seed(2)
    weights = [torch.nn.Parameter(torch.zeros(count))]
    gauge = Gauge(weights)
    gauge.begin()
    weights[0].grad = torch.randn(count, generator=generator)
    gauge.added("even")
    assert gauge.sums()["gradient_even"] == pytest.approx(
        float(weights[0].grad.double().pow(2).sum()), rel=0.01
    )


SIGNAL_D = torch.tensor([1.0, -2.0, 2.0] + [0.0] * 17, dtype=torch.float64)
"""The gradient that every group has: |G|^2 = 9."""

DEVIATION = 1.5
"""Deviation of each entry of a group's gradient: S = 20 * 1.5^2 = 45, so the scale is 5 groups."""


def halves(groups: int, generator: torch.Generator) -> dict[str, float]:
    """Return the sums of a step on ``groups`` groups, each with the divisor of all."""
    noise_N_D = torch.randn((groups, len(SIGNAL_D)), generator=generator, dtype=torch.float64)
    gradients_N_D = (SIGNAL_D + DEVIATION * noise_N_D) / groups
    even_D, odd_D = gradients_N_D[0::2].sum(0), gradients_N_D[1::2].sum(0)
    return {
        "gradient_even": float(even_D @ even_D),
        "gradient_odd": float(odd_D @ odd_D),
        "gradient_halves": float(even_D @ odd_D),
    }


@pytest.mark.parametrize("groups", [2, 8, 32])
def test_signal_and_noise_are_found_again_in_gradients_made_of_them(groups: int):
    generator = torch.Generator().manual_seed(groups)
    scale = NoiseScale()
    states: list[tuple[float, float]] = []
    for _ in range(4000):
        found = scale.add(halves(groups, generator), (groups + 1) // 2, groups // 2)
        states.append(scale.state)
        signal, noise = scale.state
        if signal > 0:
            assert found["gradient_noise/scale_groups"] == pytest.approx(max(0.0, noise) / signal)
        else:
            assert "gradient_noise/scale_groups" not in found
    # The averages decay, so one step's are still noisy; their mean is not.
    warm = states[100:]
    signal = sum(each for each, _ in warm) / len(warm)
    noise = sum(each for _, each in warm) / len(warm)
    assert signal == pytest.approx(9.0, rel=0.05)
    assert noise == pytest.approx(45.0, rel=0.05)
    assert noise / signal == pytest.approx(5.0, rel=0.05)


def test_the_noise_scale_of_one_step_by_hand():
    # The halves (3, 1) and (1, 3) of 2 groups: their product is 6, each one's square 10. So the
    # signal is 4 * 6 = 24, the noise 2 * 2 * (10 - 6) = 16, both averaged in with a tenth.
    sums = {"gradient_even": 10.0, "gradient_odd": 10.0, "gradient_halves": 6.0}
    scale = NoiseScale()
    found = scale.add(sums, 1, 1)
    assert scale.state == pytest.approx((2.4, 1.6))
    assert found["gradient_noise/cosine_of_halves"] == pytest.approx(0.6)
    assert found["gradient_noise/scale_groups"] == pytest.approx(16 / 24)
    resumed = NoiseScale(*scale.state)
    assert resumed.add(sums, 1, 1) == scale.add(sums, 1, 1)
    assert resumed.state == scale.state == pytest.approx((0.9 * 2.4 + 2.4, 0.9 * 1.6 + 1.6))


def test_one_half_alone_says_nothing_about_noise():
    scale = NoiseScale(1.0, 2.0)
    assert scale.add({"gradient_even": 4.0}, 1, 0) == {}
    assert scale.add({}, 0, 0) == {}
    assert scale.state == (1.0, 2.0)


def test_there_is_no_scale_if_the_halves_disagree():
    sums = {"gradient_even": 1.0, "gradient_odd": 1.0, "gradient_halves": -1.0}
    assert NoiseScale().add(sums, 2, 2) == {"gradient_noise/cosine_of_halves": -1.0}


@pytest.mark.parametrize("present", [range(4), (0, 2, 4, 5), (0, 2, 4, 6, 8, 9)])
def test_groups_that_left_nothing_do_not_change_the_noise_scale(present: Sequence[int]):
    generator = torch.Generator().manual_seed(len(present))
    scale, states = NoiseScale(), list[tuple[float, float]]()
    odd = sum(number % 2 for number in present)
    mean_D = torch.full((9,), 1.0)
    for _ in range(4000):
        each = {n: mean_D + 2.0 * torch.randn(9, generator=generator) for n in present}
        even_D = sum((g for n, g in each.items() if not n % 2), torch.zeros(9)) / len(present)
        odd_D = sum((g for n, g in each.items() if n % 2), torch.zeros(9)) / len(present)
        sums = {
            "gradient_even": float(even_D @ even_D),
            "gradient_odd": float(odd_D @ odd_D),
            "gradient_halves": float(even_D @ odd_D),
        }
        scale.add(sums, len(present) - odd, odd)
        states.append(scale.state)
    signal = sum(each for each, _ in states[100:])
    noise = sum(each for _, each in states[100:])
    assert noise / signal == pytest.approx(4.0, rel=0.1)

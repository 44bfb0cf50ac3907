import numpy as np
import pytest

from coevolve.priorities import PrioritySampler

DRAWS = 200_000


def shares(sampler: PrioritySampler, seed: int = 0) -> np.ndarray:
    drawn = sampler.draw(DRAWS, np.random.default_rng(seed))
    return np.bincount(drawn, minlength=len(sampler)) / DRAWS


@pytest.mark.parametrize("shape", ["uniform", "exponential", "one", "with zeros"])
def test_draws_are_distributed_as_those_of_numpy(shape: str) -> None:
    generator = np.random.default_rng(1)
    weights = {
        "uniform": generator.uniform(0.05, 1.0, 50),
        "exponential": generator.exponential(size=50),
        "one": np.eye(50)[7],
        "with zeros": generator.uniform(size=50) * (np.arange(50) % 3 == 0),
    }[shape]
    truth = weights / weights.sum()
    peer = np.bincount(generator.choice(50, DRAWS, p=truth), minlength=50) / DRAWS
    found = shares(PrioritySampler(weights))
    noise = 5 * np.sqrt(truth * (1 - truth) / DRAWS) + 1e-12
    assert np.all(np.abs(found - truth) <= noise)
    assert np.all(np.abs(found - peer) <= 2 * noise)


def test_a_draw_does_not_depend_on_the_order_of_acceptance() -> None:
    weights = np.array([1.0, 3.0])
    firsts = [
        int(PrioritySampler(weights).draw(1, np.random.default_rng(seed))[0])
        for seed in range(4000)
    ]
    assert abs(np.mean(firsts) - 0.75) < 5 * np.sqrt(0.75 * 0.25 / 4000)


def test_updated_weights_count_from_the_next_draw_on() -> None:
    sampler = PrioritySampler(np.ones(10))
    sampler.update(np.array([0, 1]), np.array([50.0, 0.0]))
    expected = np.array([50.0, 0.0, *np.ones(8)]) / 58
    assert np.allclose(shares(sampler), expected, atol=0.006)
    sampler.update(np.array([0]), np.array([1.0]))
    assert np.allclose(shares(sampler), np.array([1.0, 0.0, *np.ones(8)]) / 9, atol=0.006)


def test_equal_seeds_draw_equal_indices() -> None:
    sampler = PrioritySampler(np.arange(1.0, 100.0, dtype=np.float64))
    first, second = (sampler.draw(64, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)
    assert len(first) == 64


def test_nothing_can_be_drawn_from_weights_that_are_all_zero() -> None:
    with pytest.raises(ValueError, match="at least one positive weight"):
        PrioritySampler(np.zeros(3)).draw(1, np.random.default_rng(0))


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_unusable_weights_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        PrioritySampler(np.array([1.0, bad]))
    with pytest.raises(ValueError, match="finite and not negative"):
        PrioritySampler(np.ones(2)).update(np.array([0]), np.array([bad]))

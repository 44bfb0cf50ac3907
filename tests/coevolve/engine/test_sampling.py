import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coevolve.engine.sampling import sample


def drawn(logits: list[list[float]], temperatures: list[float], uniforms: list[float]):
    tokens, logprobs = sample(
        torch.tensor(logits),
        torch.tensor(temperatures),
        torch.tensor(uniforms, dtype=torch.float64),
    )
    return tokens.tolist(), logprobs.tolist()


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 0), (0.19, 0), (0.21, 1), (0.69, 1), (0.71, 2)]
)
def test_a_token_is_the_inverse_of_the_cumulative_distribution(uniform: float, token: int) -> None:
    logits = np.log([0.2, 0.5, 0.3]).tolist()
    tokens, logprobs = drawn([logits], [1.0], [uniform])
    assert tokens == [token]
    assert logprobs == pytest.approx([logits[token]])


def test_logprobs_are_those_of_the_tempered_distribution() -> None:
    # Temperature 2 takes the square root of the odds: 0.2 and 0.8 become 1/3 and 2/3.
    tokens, logprobs = drawn([np.log([0.2, 0.8]).tolist()], [2.0], [0.5])
    assert tokens == [1]
    assert logprobs == pytest.approx([np.log(2 / 3)])


def test_temperature_zero_takes_the_likeliest_under_the_plain_distribution() -> None:
    row = np.log([0.2, 0.5, 0.3]).tolist()
    tokens, logprobs = drawn([row, row], [0.0, 1.0], [0.99, 0.99])
    assert tokens == [1, 2]
    assert logprobs == pytest.approx([np.log(0.5), np.log(0.3)])


@given(
    row=st.lists(st.floats(-30, 30), min_size=2, max_size=20),
    uniform=st.floats(0, 1, exclude_max=True),
    impossible=st.integers(0, 19),
)
def test_an_impossible_token_is_never_drawn(
    row: list[float], uniform: float, impossible: int
) -> None:
    row = [*row, 0.0]
    row[impossible % (len(row) - 1)] = float("-inf")
    tokens, logprobs = drawn([row], [1.0], [uniform])
    assert row[tokens[0]] > float("-inf")
    assert logprobs[0] > float("-inf")


def test_frequencies_follow_the_distribution() -> None:
    chances = np.array([0.05, 0.15, 0.5, 0.3])
    uniforms = np.random.default_rng(0).random(20_000)
    tokens, _ = sample(
        torch.tensor(np.log(chances), dtype=torch.float32).expand(len(uniforms), 4),
        torch.ones(len(uniforms)),
        torch.from_numpy(uniforms),
    )
    assert np.bincount(tokens.numpy()) / len(uniforms) == pytest.approx(chances, abs=0.01)

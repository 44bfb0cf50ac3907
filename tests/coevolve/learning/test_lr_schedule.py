import pytest
from msgspec.structs import replace

from coevolve.learning.rates import rate_share
from protocols.config import LearnerConfig

CONFIG = LearnerConfig(steps=6, learning_rate=0.125, warmup_steps=2)


def shares(config: LearnerConfig) -> list[float]:
    return [rate_share(config, step) for step in range(1, 8)]


def test_a_constant_rate_only_warms_up():
    assert shares(CONFIG) == [0.5, 1, 1, 1, 1, 1, 1]


def test_a_linear_rate_falls_in_equal_steps_and_never_below_its_floor():
    assert shares(replace(CONFIG, schedule="linear")) == pytest.approx(
        [0.5, 1, 1, 0.75, 0.5, 0.25, 0]
    )
    assert shares(replace(CONFIG, schedule="linear", final_rate_share=0.2)) == pytest.approx(
        [0.5, 1, 1, 0.8, 0.6, 0.4, 0.2]
    )


def test_a_cosine_rate_is_half_in_the_middle_of_its_fall():
    assert shares(replace(CONFIG, schedule="cosine")) == pytest.approx(
        [0.5, 1, 1, 0.853553, 0.5, 0.146447, 0], abs=1e-6
    )

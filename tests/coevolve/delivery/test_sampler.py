import numpy as np
import pytest

from coevolve.delivery.sampler import FLOAT32_TOLERANCE, HALF_TOLERANCE, SamplerWatch, tolerance_of
from protocols.config import DeliveryConfig, RolloutConfig, RunConfig, TransformersEngine

TOKENS = 400


def steps_to_alarm(watch: SamplerWatch, difference: float) -> int:
    for step in range(1, 2000):
        if watch.add(difference, TOKENS) is not None:
            return step
    return 0


def test_rounding_alone_raises_no_alarm_however_long_the_run() -> None:
    watch = SamplerWatch(HALF_TOLERANCE)
    rng = np.random.default_rng(0)
    # The maximum on average, with ten times as much in one step of ten.
    differences = np.where(rng.random(20_000) < 0.1, 10, 0) * HALF_TOLERANCE * 0.9
    assert not any(watch.add(float(each), TOKENS) for each in differences)


@pytest.mark.parametrize(("times", "most"), [(2, 40), (10, 9), (1000, 3)])
def test_larger_differences_are_detected_sooner(times: float, most: int) -> None:
    watch = SamplerWatch(FLOAT32_TOLERANCE)
    for _ in range(500):
        assert watch.add(1e-7, TOKENS) is None
    assert 0 < steps_to_alarm(watch, times * FLOAT32_TOLERANCE) <= most


def test_nan_logprobs_count_as_the_maximum() -> None:
    watch = SamplerWatch(FLOAT32_TOLERANCE)
    assert steps_to_alarm(watch, float("nan")) == steps_to_alarm(
        SamplerWatch(FLOAT32_TOLERANCE), 1.0
    )


def test_an_alarm_says_what_was_found_and_of_how_many_tokens() -> None:
    watch = SamplerWatch(FLOAT32_TOLERANCE)
    found = [watch.add(0.5, TOKENS) for _ in range(2)][-1]
    assert found is not None
    assert (found.mean_abs_difference, found.tokens) == (0.5, 2 * TOKENS)
    assert found.tolerance == FLOAT32_TOLERANCE


def test_the_tolerance_is_the_configured_one_or_that_of_the_precision() -> None:
    half = RolloutConfig(engine=TransformersEngine(dtype="bfloat16"))
    told = DeliveryConfig(sampler_tolerance=0.3)
    assert tolerance_of(RunConfig(name="test")) == FLOAT32_TOLERANCE
    assert tolerance_of(RunConfig(name="test", rollout=half)) == HALF_TOLERANCE
    assert tolerance_of(RunConfig(name="test", delivery=told)) == 0.3

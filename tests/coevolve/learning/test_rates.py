"""The rates that fit a model's size, and those that a run may not have."""

import msgspec
import pytest

from coevolve.learning.rates import excesses, imitation_rate, usual_rate
from protocols.learner_config import ImitationConfig, LearnerConfig
from protocols.learning import WeightsFormat

SIZES = (100_000, 400_000, 5_000_000, 135_000_000, 600_000_000, 4_000_000_000, 30_000_000_000)


@pytest.mark.parametrize("train", ["full", "lora"])
def test_a_larger_model_never_gets_a_higher_rate(train: WeightsFormat):
    for rate in (usual_rate, imitation_rate):
        rates = [rate(size, train) for size in SIZES]
        assert rates == sorted(rates, reverse=True)
        assert rates[-1] > 0


def test_the_rule_gives_the_settings_that_it_rests_on():
    assert usual_rate(400_000, "full") == 2e-3
    assert usual_rate(4_000_000_000, "full") == pytest.approx(1e-6)
    assert usual_rate(4_000_000_000, "lora") == pytest.approx(1e-5)
    assert usual_rate(134_515_008, "lora") == pytest.approx(1e-4)
    assert imitation_rate(134_515_008, "lora") == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("learner", "weights", "train", "named"),
    [
        (LearnerConfig(), 134_515_008, "lora", ["learner.learning_rate: "]),
        (
            LearnerConfig(),
            4_000_000_000,
            "full",
            ["learner.learning_rate: ", "learner.imitation.learning_rate: "],
        ),
        (LearnerConfig(learning_rate=5e-3), 600_000_000, "lora", ["learner.learning_rate: "]),
        (LearnerConfig(learning_rate=1e-4), 134_515_008, "lora", []),
        (LearnerConfig(), 400_000, "full", []),
        (
            LearnerConfig(objective={"kind": "none"}),
            270_000_000,
            "full",
            ["learner.imitation.learning_rate: "],
        ),
        (
            LearnerConfig(
                learning_rate=1e-6, imitation=ImitationConfig(weight=0, replay_per_step=0)
            ),
            4_000_000_000,
            "full",
            [],
        ),
    ],
)
def test_only_rates_far_above_the_usual_one_are_refused(
    learner: LearnerConfig, weights: int, train: WeightsFormat, named: list[str]
):
    found = excesses(learner, weights, train)
    assert [any(each.startswith(name) for each in found) for name in named] == [True] * len(named)
    assert len(found) == len(named)


def test_the_remedy_that_is_named_is_accepted():
    learner = LearnerConfig()
    (said,) = excesses(learner, 134_515_008, "lora")
    rate = float(said.rpartition("=")[2])
    assert not excesses(msgspec.structs.replace(learner, learning_rate=rate), 134_515_008, "lora")

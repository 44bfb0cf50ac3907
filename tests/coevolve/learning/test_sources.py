"""Tests of how far each gradient source moves the weights, and of steps back to earlier weights."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from coevolve.learning.batch import Batch
from coevolve.learning.group import BatchGroup
from coevolve.learning.optimizers import BETAS, TEACHERS
from coevolve.learning.trainer import Trainer
from protocols import columns
from protocols.config import LearnerConfig, RunConfig
from protocols.errors import LearnerError
from protocols.learner_config import ImitationConfig
from protocols.learning import WeightsFormat
from tests.coevolve.learning.test_trainer import (
    REFERENCE,
    batch,
    settings,
    slow_gradients,
    slow_logprob,
)
from tests.learning import moments, rollout, small_model

NO_REPLAY = ImitationConfig(replay_per_step=0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def mixed_alone(step: int) -> Batch:
    return Batch(step=step, groups=batch().groups[:1])


def passed_alone(step: int) -> Batch:
    return Batch(step=step, groups=batch().groups[1:2])


def failed_alone(step: int) -> Batch:
    return Batch(step=step, groups=batch().groups[2:])


def saved(trainer: Trainer, folder: Path) -> Path:
    """Write a checkpoint and a version into ``folder``."""
    folder.mkdir()
    trainer.save(folder)
    trainer.save_weights(folder)
    return folder


def weights_of(folder: Path) -> bytes:
    (file,) = folder.glob("*.safetensors")
    return file.read_bytes()


def momentum(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Return teacher -> kind -> its momentum of the first parameter."""
    return {
        teacher: {
            kind: next(iter(each.values())) for kind, each in moments(folder, teacher).items()
        }
        for teacher in TEACHERS
    }


def test_a_teacher_without_rows_takes_no_step_although_it_has_momentum(model: Path, tmp_path: Path):
    trainer = Trainer(settings(LearnerConfig(imitation=NO_REPLAY)), model)
    trainer.take_step(batch(1))
    both = momentum(saved(trainer, tmp_path / "1"))
    assert {teacher: int(each["step"]) for teacher, each in both.items()} == {
        "objective": 1,
        "imitation": 1,
    }

    metrics = trainer.take_step(mixed_alone(2))
    folder = saved(trainer, tmp_path / "2")
    assert [int(momentum(folder)[each]["step"]) for each in ("objective", "imitation")] == [2, 1]
    assert momentum(folder)["imitation"]["exp_avg"].equal(both["imitation"]["exp_avg"])
    assert metrics["source/objective/movement_share"] == pytest.approx(1.0)
    assert metrics["source/imitation/movement_share"] == 0.0
    assert metrics["source/movement"] > 0

    metrics = trainer.take_step(failed_alone(3))
    folder = saved(trainer, tmp_path / "3")
    assert [int(momentum(folder)[each]["step"]) for each in ("objective", "imitation")] == [2, 2]
    assert metrics["source/imitation/movement_share"] == pytest.approx(1.0)
    assert metrics["source/objective/movement_share"] == metrics["actor/grad_norm"] == 0.0

    metrics = trainer.take_step(passed_alone(4))
    assert weights_of(saved(trainer, tmp_path / "4")) == weights_of(folder)
    assert metrics["source/movement"] == 0.0


@pytest.mark.parametrize("weight", [1e-2, 8e3])
def test_how_far_the_objective_moves_the_weights_does_not_depend_on_the_weight_of_imitation(
    model: Path, tmp_path: Path, weight: float
):
    found: list[dict[str, torch.Tensor]] = []
    for number, each in enumerate((8.0, weight)):
        imitation = ImitationConfig(weight=each, replay_per_step=0, learning_rate=1e-5)
        trainer = Trainer(settings(LearnerConfig(imitation=imitation)), model)
        for step in (1, 2, 3):
            metrics = trainer.take_step(batch(step))
            assert metrics["source/objective/movement_share"] > 0.97
        folder = saved(trainer, tmp_path / str(number))
        found.append(load_file(folder / "model.safetensors"))
    # Three steps of the objective go up to 6e-3 far, three of imitation up to 3e-5.
    for name, tensor in found[0].items():
        assert torch.allclose(found[1][name], tensor, atol=1e-4), name


def test_the_sources_of_a_step_are_counted_and_measured(model: Path):
    learner = LearnerConfig(groups_per_step=3, learning_rate=1e-12)
    config = settings(learner)
    metrics = Trainer(config, model).take_step(batch())
    assert [metrics[f"source/{each}/rows"] for each in ("objective", "imitation", "replay")] == [
        4, 1, 1
    ]  # fmt: skip
    gradients = slow_gradients(model, config)
    norms = {
        teacher: math.sqrt(sum(float((each**2).sum()) for each in parts))
        for teacher, parts in gradients.items()
    }
    assert metrics["source/objective/grad_norm"] == pytest.approx(norms["objective"], rel=1e-4)
    # Replay draws the only reference, so its gradient is parallel, with weight 2 instead of 8.
    assert metrics["source/imitation/grad_norm"] == pytest.approx(
        0.8 * norms["imitation"], rel=1e-4
    )
    assert metrics["source/replay/grad_norm"] == pytest.approx(0.2 * norms["imitation"], rel=1e-3)


def test_the_shares_of_a_steps_movement_add_up_to_1(model: Path):
    trainer = Trainer(settings(LearnerConfig()), model)
    for step in (1, 2):
        metrics = trainer.take_step(batch(step))
        shares = [metrics[f"source/{each}/movement_share"] for each in ("objective", "imitation")]
        assert sum(shares) == pytest.approx(1.0, rel=1e-4)
        assert min(shares) > 0.01


def two_mixed(step: int, *, which: Sequence[int] = (0, 1)) -> Batch:
    """Return two informative groups with others before and between them, or one of the two."""
    mixed, passed, failed = batch().groups
    rollouts = tuple(rollout(6, index, size=4, passed=index < 2) for index in range(4))
    record = msgspec.structs.replace(mixed.record, group_id="g6", group=6, successes=2)
    informative = (mixed, BatchGroup(record=record, rollouts=rollouts, reference=None))
    groups = [each for n in which for each in (passed, informative[n], failed)]
    return Batch(step=step, groups=tuple(groups))


def test_the_noise_scale_compares_every_other_informative_group(model: Path, tmp_path: Path):
    config = settings(LearnerConfig(groups_per_step=6, max_grad_norm=1e9, imitation=NO_REPLAY))
    trainer = Trainer(config, model)
    metrics = trainer.take_step(two_mixed(1))
    halves: list[torch.Tensor] = []
    for which in (0, 1):
        alone = Trainer(config, model)
        assert "gradient_noise/cosine_of_halves" not in alone.take_step(two_mixed(1, which=[which]))
        folder = saved(alone, tmp_path / str(which))
        averages = moments(folder, "objective")["exp_avg"].values()
        gradient = torch.cat([each.flatten() for each in averages])
        halves.append(gradient.double() / (1 - BETAS[0]))
    product, squares = float(halves[0] @ halves[1]), [float(each @ each) for each in halves]
    cosine = product / math.sqrt(squares[0] * squares[1])
    assert metrics["gradient_noise/cosine_of_halves"] == pytest.approx(cosine, abs=1e-3)
    signal, noise = 4 * product, 2 * 2 * (sum(squares) / 2 - product)
    folder = saved(trainer, tmp_path / "both")
    state = msgspec.json.decode((folder / "trainer_state.json").read_bytes())
    assert state["noise"] == pytest.approx([0.1 * signal, 0.1 * noise], rel=1e-3)


def without_objective(**imitation: Any) -> RunConfig:
    learner = LearnerConfig(objective={"kind": "none"}, imitation=ImitationConfig(**imitation))
    return settings(learner)


def test_without_an_objective_a_group_that_differs_teaches_nothing(model: Path, tmp_path: Path):
    trainer = Trainer(without_objective(), model)
    metrics = trainer.take_step(mixed_alone(1))
    assert metrics["source/objective/rows"] == metrics["source/movement"] == 0.0
    assert weights_of(saved(trainer, tmp_path / "1")) == weights_of(model)


def test_without_an_objective_references_are_imitated_all_the_same(model: Path, tmp_path: Path):
    trainer = Trainer(without_objective(), model)
    metrics = trainer.take_step(batch())
    assert [metrics[f"source/{each}/rows"] for each in ("objective", "imitation", "replay")] == [
        0, 1, 1
    ]  # fmt: skip
    assert metrics["source/imitation/movement_share"] == pytest.approx(1.0)
    assert metrics["actor/grad_norm"] == metrics["actor/pg_loss"] == 0.0
    # A policy gradient that hardly moves leaves the same of imitation: the divisor is the same.
    idle = settings(LearnerConfig(objective={"kind": "dr_grpo"}, learning_rate=1e-12))
    other = Trainer(idle, model)
    other.take_step(batch())
    expected = load_file(saved(other, tmp_path / "other") / "model.safetensors")
    found = load_file(saved(trainer, tmp_path / "none") / "model.safetensors")
    for name, tensor in expected.items():
        assert torch.allclose(found[name], tensor, atol=1e-6), name


def test_the_divergence_from_the_first_weights_is_measured_now_and_then_and_changes_nothing(
    model: Path, tmp_path: Path
):
    measuring = Trainer(settings(LearnerConfig(divergence_every=2), temperature=0.7), model)
    plain = Trainer(settings(LearnerConfig(divergence_every=0), temperature=0.7), model)
    found: list[float | None] = []
    folder = tmp_path
    for step in (1, 2, 3):
        if step == 2:
            folder = saved(measuring, tmp_path / "1")
        found.append(measuring.take_step(batch(step)).get("actor/kl_from_start"))
        assert "actor/kl_from_start" not in plain.take_step(batch(step))
    assert measuring.probe() == plain.probe()
    slow_model, base = (
        AutoModelForCausalLM.from_pretrained(each).eval() for each in (folder, model)
    )
    losses: list[float] = []
    for one in batch().groups[0].rollouts:
        ids = columns.from_int32(one.tokens.token_ids)
        for position in range(1, len(ids)):
            if one.tokens.mask[position]:
                own, other = (
                    slow_logprob(each, ids, position, 0.7).item() for each in (slow_model, base)
                )
                losses.append(math.exp(other - own) - (other - own) - 1)
    expected = sum(losses) / len(losses)
    assert expected > 1e-5
    assert found == [None, pytest.approx(expected, rel=1e-2), None]


@pytest.mark.parametrize("kind", ["sft", "none"])
@pytest.mark.parametrize("train", ["full", "lora"])
def test_an_objective_that_is_no_policy_gradient_measures_no_divergence(
    model: Path, kind: str, train: WeightsFormat
):
    learner = LearnerConfig(objective={"kind": kind}, divergence_every=1)
    trainer = Trainer(settings(learner, train=train), model)
    metrics = trainer.take_step(batch(1))
    assert metrics["actor/imitation_loss"] > 0
    assert "actor/kl_from_start" not in metrics


@pytest.mark.parametrize("train", ["full", "lora"])
def test_a_step_back_has_the_earlier_weights_no_momentum_and_lower_rates(
    model: Path, tmp_path: Path, train: WeightsFormat
):
    learner = LearnerConfig(imitation=NO_REPLAY)
    trainer = Trainer(settings(learner, train=train), model)
    trainer.take_step(batch(1))
    first = saved(trainer, tmp_path / "1")
    for step in (2, 3):
        trainer.take_step(batch(step))
    assert weights_of(saved(trainer, tmp_path / "3")) != weights_of(first)

    metrics = trainer.go_back(4, first, 0.25)
    assert metrics == {"actor/lr": 0.25 * 2e-3, "actor/imitation_lr": 0.25 * 1e-3}
    assert trainer.step == 4
    back = saved(trainer, tmp_path / "4")
    assert weights_of(back) == weights_of(first)
    assert momentum(back) == {"objective": {}, "imitation": {}}

    # It continues like a trainer that starts with those weights and has such rates from the start.
    slower = msgspec.structs.replace(
        learner,
        learning_rate=0.25 * learner.learning_rate,
        imitation=ImitationConfig(replay_per_step=0, learning_rate=0.25 * 1e-3),
    )
    fresh = Trainer(settings(slower, train=train), model, weights=first)
    # Leave out metrics about the version before the step, because its number differs.
    expected, found = (
        {name: value for name, value in metrics.items() if "on_policy" not in name}
        for metrics in (fresh.take_step(batch(1)), trainer.take_step(batch(5)))
    )
    assert found == expected
    assert trainer.probe() == fresh.probe()


def test_a_step_back_keeps_the_references_and_forgets_the_noise(model: Path, tmp_path: Path):
    trainer = Trainer(settings(LearnerConfig(groups_per_step=6)), model)
    trainer.take_step(two_mixed(1))
    first = saved(trainer, tmp_path / "1")
    trainer.go_back(2, first, 0.5)
    back = saved(trainer, tmp_path / "2")
    states = [
        msgspec.json.decode((folder / "trainer_state.json").read_bytes())
        for folder in (first, back)
    ]
    kept = [list(REFERENCE.token_ids), list(REFERENCE.mask)]
    assert [state["replay"] for state in states] == [[kept, kept], [kept, kept]]
    assert states[0]["noise"] != [0.0, 0.0] == states[1]["noise"]
    assert [state["rate_factor"] for state in states] == [1.0, 0.5]
    assert [state["learning_rate"] for state in states] == pytest.approx([2e-3, 1e-3])


def test_a_checkpoint_of_a_step_back_goes_on_bit_by_bit(model: Path, tmp_path: Path):
    config = settings(LearnerConfig(groups_per_step=3))
    straight = Trainer(config, model)
    straight.take_step(batch(1))
    straight.go_back(2, saved(straight, tmp_path / "1"), 0.5)
    resumed = Trainer(config, model, checkpoint=saved(straight, tmp_path / "2"))
    for step in (3, 4):
        assert straight.take_step(batch(step)) == resumed.take_step(batch(step))
    assert straight.probe() == resumed.probe()


def test_a_step_back_out_of_turn_is_refused(model: Path):
    trainer = Trainer(settings(LearnerConfig()), model)
    with pytest.raises(LearnerError, match="step 1 is next, got step 2"):
        trainer.go_back(2, model, 0.5)

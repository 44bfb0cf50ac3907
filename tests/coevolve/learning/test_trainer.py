import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from coevolve.learning.batch import Batch, BatchGroup, Reference, ReferenceRow, Row, row_length
from coevolve.learning.policy import Policy, micro_batches, padded
from coevolve.learning.trainer import BETAS, Trainer
from protocols import columns
from protocols.config import LearnerConfig, PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import LearnerError
from protocols.learning import TrainedGroup, WeightsFormat
from tests.learning import rollout, small_model

REFERENCE = Reference(token_ids=(1, 2, 9, 10, 11), mask=(0, 0, 1, 1, 1))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def settings(
    learner: LearnerConfig, *, train: WeightsFormat = "full", temperature: float = 1.0
) -> RunConfig:
    return RunConfig(
        name="test",
        seed=5,
        policy=PolicyConfig(train=train, lora_rank=2),
        rollout=RolloutConfig(group_size=4, temperature=temperature),
        learner=learner,
    )


def batch(step: int = 1) -> Batch:
    """A mixed group, a hopeless one and one that everybody passed."""
    record = TrainedGroup(
        group_id="g1",
        group=1,
        task_id="t1",
        sequences=(1, 2, 3, 4),
        successes=1,
        use="policy_gradient",
    )
    mixed = tuple(rollout(1, index, size=4, passed=index == 2) for index in range(4))
    passed = tuple(rollout(2, index, size=4) for index in range(4))
    failed = tuple(rollout(3, index, size=4, passed=False) for index in range(4))

    def used(use: str, group: int) -> TrainedGroup:
        return TrainedGroup(
            group_id=f"g{group}",
            group=group,
            task_id=f"t{group}",
            sequences=(),
            successes=0,
            use="imitation" if use == "imitation" else "nothing",
        )

    return Batch(
        step=step,
        groups=(
            BatchGroup(record=record, rollouts=mixed, reference=None),
            BatchGroup(record=used("nothing", 2), rollouts=passed, reference=None),
            BatchGroup(record=used("imitation", 3), rollouts=failed, reference=REFERENCE),
        ),
    )


def slow_logprob(model: torch.nn.Module, ids: list[int], position: int, t: float) -> torch.Tensor:
    """The log-probability of one token after its prefix alone, from a forward of its own."""
    logits_V = model(torch.tensor([ids[:position]])).logits[0, -1] / t
    return logits_V[ids[position]] - logits_V.exp().sum().log()


def slow_gradients(folder: Path, config: RunConfig) -> list[torch.Tensor]:
    """The gradients of a step on ``batch()``, token by token, before they are clipped."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    base = AutoModelForCausalLM.from_pretrained(folder).eval()
    learner, t = config.learner, config.rollout.temperature
    loss = torch.zeros(())
    for one in batch().groups[0].rollouts:
        advantage = math.sqrt(3) if one.succeeded else -1 / math.sqrt(3)
        ids = columns.from_int32(one.tokens.token_ids)
        sampler = columns.from_float32(one.tokens.logprobs)
        for position in (p for p in range(len(ids)) if one.tokens.mask[p]):
            logprob = slow_logprob(model, ids, position, t)
            ratio = math.exp(logprob.item() - sampler[position])
            loss = loss - min(ratio, learner.importance_cap) * advantage * logprob
            with torch.no_grad():
                reference = slow_logprob(base, ids, position, t)
            difference = reference - logprob
            loss = loss + learner.kl_coefficient * (difference.exp() - difference - 1)
    for position in (2, 3, 4):
        logprob = slow_logprob(model, list(REFERENCE.token_ids), position, t)
        weight = learner.imitation_weight + learner.replay_weight * (learner.replay_per_step > 0)
        loss = loss - weight * logprob
    (loss / (learner.groups_per_step * 4 * learner.loss_normalizer_tokens)).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize(
    "config",
    [
        settings(LearnerConfig(groups_per_step=3)),
        settings(LearnerConfig(groups_per_step=3, replay_per_step=0), temperature=0.7),
        settings(LearnerConfig(groups_per_step=1, kl_coefficient=0.1, importance_cap=0.9)),
        settings(LearnerConfig(groups_per_step=1, max_grad_norm=1e-3, warmup_steps=1)),
    ],
    ids=["default", "tempered", "kl", "clipped"],
)
def test_the_gradient_is_the_one_of_a_slow_independent_implementation(
    model: Path, tmp_path: Path, config: RunConfig
):
    trainer = Trainer(config, model)
    metrics = trainer.take_step(batch())
    trainer.save(tmp_path)
    state = torch.load(tmp_path / "optimizer.pt")["state"]
    expected = slow_gradients(model, config)
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in expected))
    assert metrics["actor/grad_norm"] == pytest.approx(norm, rel=1e-4)
    scale = min(1.0, config.learner.max_grad_norm / norm)
    assert len(state) == len(expected)
    for number, gradient in enumerate(expected):
        found = state[number]["exp_avg"] / (1 - BETAS[0])
        assert torch.allclose(found, gradient * scale, rtol=1e-3, atol=1e-6 * scale)


def test_a_step_moves_the_weights_as_adam_does_without_decay(model: Path, tmp_path: Path):
    trainer = Trainer(settings(LearnerConfig(groups_per_step=3)), model)
    trainer.take_step(batch())
    trainer.save_weights(tmp_path)
    before = load_file(model / "model.safetensors")
    after = load_file(tmp_path / "model.safetensors")
    for name in before:
        moved = (after[name] - before[name]).abs()
        assert moved.max() == pytest.approx(2e-3, rel=0.01)


def test_the_divergence_pulls_an_adapter_back_to_the_model_without_it(model: Path):
    config = LearnerConfig(groups_per_step=1, kl_coefficient=0.5, replay_per_step=0)
    trainer = Trainer(settings(config, train="lora"), model)
    first, second = (trainer.take_step(batch(step))["actor/kl_loss"] for step in (1, 2))
    assert first == pytest.approx(0, abs=1e-6)
    assert second > 1e-6


def test_padding_changes_no_probability(model: Path):
    policy = Policy(PolicyConfig(), model)
    rows: list[Row] = [
        ReferenceRow(token_ids=list(range(n)), mask=[0, *[1] * (n - 1)], weight=1.0)
        for n in (3, 9, 5)
    ]
    together_N, entropies_N = policy.logprobs(*padded(rows), temperature=1.0)
    alone = [policy.logprobs(*padded([row]), temperature=1.0) for row in rows]
    assert torch.allclose(together_N, torch.cat([one for one, _ in alone]), atol=1e-6)
    assert torch.allclose(entropies_N, torch.cat([one for _, one in alone]), atol=1e-6)


def test_micro_batches_hold_every_row_once_and_rows_of_like_length_together():
    lengths = [500 + 97 * n % 400 for n in range(60)]
    rows: list[Row] = [
        ReferenceRow(token_ids=[0] * n, mask=[1] * n, weight=float(number))
        for number, n in enumerate(lengths)
    ]
    packs = list(micro_batches(rows, 8192))
    assert len(packs) > 3
    assert sorted(row_length(row) for pack in packs for row in pack) == sorted(lengths)
    used = sum(len(pack) * max(map(row_length, pack)) for pack in packs)
    assert used < 1.2 * sum(lengths)


def test_the_same_batches_make_the_same_bits(model: Path, tmp_path: Path):
    config = settings(LearnerConfig(groups_per_step=3, replay_per_step=2))
    written: list[bytes] = []
    for run in ("one", "two"):
        trainer = Trainer(config, model)
        for step in (1, 2, 3):
            trainer.take_step(batch(step))
        (tmp_path / run).mkdir()
        trainer.save_weights(tmp_path / run)
        written.append((tmp_path / run / "model.safetensors").read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("train", ["full", "lora"])
def test_a_checkpoint_goes_on_bit_by_bit(model: Path, tmp_path: Path, train: WeightsFormat):
    config = settings(LearnerConfig(groups_per_step=3, replay_per_step=2), train=train)
    straight = Trainer(config, model)
    for step in (1, 2):
        straight.take_step(batch(step))
    straight.save(tmp_path)
    resumed = Trainer(config, model, checkpoint=tmp_path)
    assert resumed.step == 2
    assert straight.take_step(batch(3)) == resumed.take_step(batch(3))


def test_the_learning_rate_rises_over_the_warm_up(model: Path):
    trainer = Trainer(settings(LearnerConfig(learning_rate=1e-3, warmup_steps=4)), model)
    rates = [trainer.take_step(batch(step))["actor/lr"] for step in range(1, 7)]
    assert rates == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3, 1e-3])


def test_a_batch_out_of_turn_is_refused(model: Path):
    trainer = Trainer(settings(LearnerConfig()), model)
    with pytest.raises(LearnerError, match="after step 0 comes no step 2"):
        trainer.take_step(batch(2))


def test_a_sampler_that_disagrees_is_seen_in_the_metrics(model: Path):
    metrics = Trainer(settings(LearnerConfig()), model).take_step(batch())
    sampler = math.exp(-4.0)
    assert metrics["actor/ppo_kl"] == pytest.approx(-4 + math.log(64), abs=0.2)
    assert metrics["training/rollout_probs_diff_mean"] == pytest.approx(
        abs(sampler - 1 / 64), abs=5e-3
    )
    assert metrics["actor/entropy"] == pytest.approx(math.log(64), abs=0.1)
    assert metrics["actor/pg_clipfrac"] == 0

import json
import math
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from coevolve.learning.batch import Batch
from coevolve.learning.group import BatchGroup
from coevolve.learning.losses.imitation import imitated
from coevolve.learning.losses.policy_gradient import PolicyGradient
from coevolve.learning.objective import Objective
from coevolve.learning.objective_registry import objective_of, section
from coevolve.learning.objectives.dapo import Dapo
from coevolve.learning.objectives.dpo import Dpo
from coevolve.learning.objectives.dr_grpo import DrGrpo
from coevolve.learning.objectives.gspo import Gspo
from coevolve.learning.objectives.sft import Sft
from coevolve.learning.optimizers import BETAS, Teacher
from coevolve.learning.policy import Policy, micro_batches, padded
from coevolve.learning.rows import Conversation, Row
from coevolve.learning.trainer import Trainer
from protocols import columns
from protocols.config import LearnerConfig, PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import LearnerError
from protocols.learner_config import ImitationConfig
from protocols.learning import TrainedGroup, WeightsFormat
from tests.learning import moments, rollout, small_model

REFERENCE = Conversation(token_ids=(1, 2, 9, 10, 11), mask=(0, 0, 1, 1, 1))


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
    """Return a mixed group, a group without success and a group in which every rollout passed."""
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
    """Return the log-probability of one token given its prefix, from a separate forward."""
    logits_V = model(torch.tensor([ids[:position]])).logits[0, -1] / t
    return logits_V[ids[position]] - logits_V.exp().sum().log()


def slow_importance(config: RunConfig, logprobs: list[float], sampler: list[float]) -> list[float]:
    """Return the weight of every token of one rollout, computed with plain floats."""
    differences = [own - other for own, other in zip(logprobs, sampler, strict=True)]
    if config.learner.importance == "sequence":
        differences = [sum(differences)] * len(differences)
    if config.learner.importance == "off":
        differences = [0.0] * len(differences)
    return [min(math.exp(each), config.learner.importance_cap) for each in differences]


def slow_scale(config: RunConfig, written: int) -> float:
    """Return the weight of a token's loss in a sequence of ``batch()`` with ``written`` tokens."""
    objective = objective_of(config.learner)
    assert isinstance(objective, PolicyGradient)
    tokens = [sum(one.tokens.mask) for group in batch().groups for one in group.rollouts]
    match objective.aggregation:
        case "constant":
            rollouts = config.learner.groups_per_step * 4
            return 1 / (rollouts * config.learner.loss_normalizer_tokens)
        case "token_mean":
            return 1 / sum(tokens)
        case "sequence_mean":
            return 1 / len(tokens) / written


def slow_gradients(folder: Path, config: RunConfig) -> dict[Teacher, list[torch.Tensor]]:
    """Return the gradients of a step on ``batch()``, token by token, before clipping."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    base = AutoModelForCausalLM.from_pretrained(folder).eval()
    parameters = list(model.parameters())
    losses: dict[Teacher, torch.Tensor] = {
        "objective": slow_objective(model, base, config),
        "imitation": slow_imitation(model, config),
    }
    return {name: list(torch.autograd.grad(loss, parameters)) for name, loss in losses.items()}


def slow_objective(
    model: torch.nn.Module, base: torch.nn.Module, config: RunConfig
) -> torch.Tensor:
    """Return the loss of the rollouts of ``batch()``, at the temperature of rollouts."""
    learner, t = config.learner, config.rollout.temperature
    centred_only = isinstance(objective_of(learner), DrGrpo)
    loss = torch.zeros(())
    for one in batch().groups[0].rollouts:
        advantage = (3.0 if one.succeeded else -1.0) * (0.25 if centred_only else 1 / math.sqrt(3))
        ids = columns.from_int32(one.tokens.token_ids)
        written = [p for p in range(len(ids)) if one.tokens.mask[p]]
        sampler = [columns.from_float32(one.tokens.logprobs)[p] for p in written]
        logprobs = [slow_logprob(model, ids, p, t) for p in written]
        weights = slow_importance(config, [each.item() for each in logprobs], sampler)
        scale = slow_scale(config, len(written))
        for position, logprob, weight in zip(written, logprobs, weights, strict=True):
            loss = loss - scale * weight * advantage * logprob
            with torch.no_grad():
                reference = slow_logprob(base, ids, position, t)
            difference = reference - logprob
            loss = loss + scale * learner.kl_coefficient * (difference.exp() - difference - 1)
    return loss


def slow_imitation(model: torch.nn.Module, config: RunConfig) -> torch.Tensor:
    """Return the loss of ``batch()``'s reference, at temperature 1; replay draws the same one."""
    imitation = config.learner.imitation
    weight = imitation.weight + imitation.replay_weight * (imitation.replay_per_step > 0)
    loss = torch.zeros(())
    for position in (2, 3, 4):
        logprob = slow_logprob(model, list(REFERENCE.token_ids), position, 1.0)
        loss = loss - slow_scale(config, 3) * weight * logprob
    return loss


@pytest.mark.parametrize(
    "config",
    [
        settings(LearnerConfig(groups_per_step=3)),
        settings(
            LearnerConfig(groups_per_step=3, imitation=ImitationConfig(replay_per_step=0)),
            temperature=0.7,
        ),
        settings(LearnerConfig(groups_per_step=1, kl_coefficient=0.1, importance_cap=0.9)),
        settings(LearnerConfig(groups_per_step=1, max_grad_norm=1e-3, warmup_steps=1)),
        settings(
            LearnerConfig(objective=section(DrGrpo()), importance="sequence", importance_cap=1.5)
        ),
        settings(LearnerConfig(objective=section(Dapo()), importance="off")),
        settings(
            LearnerConfig(objective=section(Gspo()), importance="sequence", kl_coefficient=0.1)
        ),
    ],
    ids=["default", "tempered", "kl", "clipped", "dr_grpo", "dapo", "gspo"],
)
def test_the_gradient_is_the_one_of_a_slow_independent_implementation(
    model: Path, tmp_path: Path, config: RunConfig
):
    # The objective's update comes first; it moves nothing here before references are imitated.
    learner = msgspec.structs.replace(config.learner, learning_rate=1e-12)
    trainer = Trainer(msgspec.structs.replace(config, learner=learner), model)
    metrics = trainer.take_step(batch())
    trainer.save(tmp_path)
    expected = slow_gradients(model, config)
    for teacher, gradients in expected.items():
        averages = list(moments(tmp_path, teacher)["exp_avg"].values())
        norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
        scale = min(1.0, config.learner.max_grad_norm / norm)
        for average, gradient in zip(averages, gradients, strict=True):
            found = average / (1 - BETAS[0])
            assert torch.allclose(found, gradient * scale, rtol=1e-3, atol=1e-6 * scale)
        if teacher == "objective":
            assert metrics["actor/grad_norm"] == pytest.approx(norm, rel=1e-4)


@pytest.mark.parametrize(
    ("rates", "furthest"), [((2e-3, 1e-12), 2e-3), ((1e-12, 5e-3), 5e-3)], ids=["objective", "imit"]
)
def test_a_step_moves_the_weights_as_adam_does_without_decay(
    model: Path, tmp_path: Path, rates: tuple[float, float], furthest: float
):
    learner = LearnerConfig(
        groups_per_step=3,
        learning_rate=rates[0],
        imitation=ImitationConfig(learning_rate=rates[1]),
    )
    trainer = Trainer(settings(learner), model)
    trainer.take_step(batch())
    trainer.save_weights(tmp_path)
    before = load_file(model / "model.safetensors")
    after = load_file(tmp_path / "model.safetensors")
    for name in before:
        moved = (after[name] - before[name]).abs()
        assert moved.max() == pytest.approx(furthest, rel=0.01)


def test_the_divergence_pulls_an_adapter_back_to_the_model_without_it(model: Path):
    config = LearnerConfig(
        groups_per_step=1, kl_coefficient=0.5, imitation=ImitationConfig(replay_per_step=0)
    )
    trainer = Trainer(settings(config, train="lora"), model)
    first, second = (trainer.take_step(batch(step))["actor/kl_loss"] for step in (1, 2))
    assert first == pytest.approx(0, abs=1e-6)
    assert second > 1e-6


def test_padding_changes_no_probability(model: Path):
    policy = Policy(PolicyConfig(), model)
    rows: list[Row] = [
        imitated(Conversation(token_ids=list(range(n)), mask=[0, *[1] * (n - 1)]))
        for n in (3, 9, 5)
    ]
    together_N, entropies_N = policy.logprobs(*padded(rows), temperature=1.0)
    alone = [policy.logprobs(*padded([row]), temperature=1.0) for row in rows]
    assert torch.allclose(together_N, torch.cat([one for one, _ in alone]), atol=1e-6)
    assert torch.allclose(entropies_N, torch.cat([one for _, one in alone]), atol=1e-6)


def test_micro_batches_hold_every_row_once_and_rows_of_like_length_together():
    lengths = [500 + 97 * n % 400 for n in range(60)]
    rows: list[Row] = [imitated(Conversation(token_ids=[0] * n, mask=[1] * n)) for n in lengths]
    packs = list(micro_batches(rows, 8192))
    assert len(packs) > 3
    assert sorted(row.length for pack in packs for row in pack) == sorted(lengths)
    used = sum(len(pack) * max(row.length for row in pack) for pack in packs)
    assert used < 1.2 * sum(lengths)


def test_little_is_padded_on_the_lengths_of_the_quickstart():
    text = (Path(__file__).parent / "quickstart_lengths.json").read_text()
    rows: list[list[Row]] = [
        [imitated(Conversation(token_ids=[0] * n, mask=[1] * n)) for n in lengths]
        for lengths in json.loads(text)
    ]
    packs = [
        pack for step in rows for pack in micro_batches(step, LearnerConfig().micro_batch_tokens)
    ]
    used = sum(len(pack) * max(row.length for row in pack) for pack in packs)
    assert 1 - sum(row.length for pack in packs for row in pack) / used <= 0.15


def test_the_same_batches_make_the_same_bits(model: Path, tmp_path: Path):
    config = settings(
        LearnerConfig(groups_per_step=3, imitation=ImitationConfig(replay_per_step=2))
    )
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
    config = settings(
        LearnerConfig(groups_per_step=3, imitation=ImitationConfig(replay_per_step=2)), train=train
    )
    straight = Trainer(config, model)
    for step in (1, 2):
        straight.take_step(batch(step))
    straight.save(tmp_path)
    resumed = Trainer(config, model, checkpoint=tmp_path)
    assert resumed.step == 2
    for step in (3, 4):
        assert straight.take_step(batch(step)) == resumed.take_step(batch(step))
    written: list[dict[str, bytes]] = []
    for name, trainer in (("straight", straight), ("resumed", resumed)):
        folder = tmp_path / name
        folder.mkdir()
        trainer.save_weights(folder)
        written.append({each.name: each.read_bytes() for each in folder.glob("*.safetensors")})
    assert written[0]
    assert written[0] == written[1]


def test_the_learning_rate_rises_over_the_warm_up(model: Path):
    trainer = Trainer(settings(LearnerConfig(learning_rate=1e-3, warmup_steps=4)), model)
    rates = [trainer.take_step(batch(step))["actor/lr"] for step in range(1, 7)]
    assert rates == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3, 1e-3])


def test_several_updates_a_step_clip_and_are_repeated_to_the_bit(model: Path):
    config = settings(
        LearnerConfig(
            ppo_epochs=4,
            mini_batches=2,
            learning_rate=1e-2,
            imitation=ImitationConfig(replay_per_step=0),
        )
    )
    first, second = Trainer(config, model), Trainer(config, model)
    found = first.take_step(batch())
    assert found == second.take_step(batch())
    assert found["actor/pg_clipfrac"] > 0
    assert first.probe() == second.probe()


def test_one_update_is_as_large_as_a_pass_of_mini_batches(model: Path):
    learner = LearnerConfig(
        learning_rate=1e-9, imitation=ImitationConfig(learning_rate=1e-9, replay_per_step=0)
    )
    whole = Trainer(settings(learner), model).take_step(batch())
    learner = msgspec.structs.replace(learner, mini_batches=5)
    parts = Trainer(settings(learner), model).take_step(batch())
    for name in ("actor/pg_loss", "actor/imitation_loss"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-4)


@pytest.mark.parametrize(
    ("objective", "loss"),
    [(Sft(), "actor/imitation_loss"), (Dpo(beta=0.5), "actor/preference_loss")],
    ids=["sft", "dpo"],
)
def test_rollouts_can_be_imitated_or_preferred(model: Path, objective: Objective, loss: str):
    learner = LearnerConfig(
        objective=section(objective), imitation=ImitationConfig(weight=0.0, replay_per_step=0)
    )
    trainer = Trainer(settings(learner), model)
    mixed = batch().groups[:2]
    losses = [trainer.take_step(Batch(step=n, groups=mixed))[loss] for n in (1, 2, 3)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 3


@pytest.mark.parametrize("train", ["full", "lora"])
def test_the_better_of_two_rollouts_is_preferred(model: Path, train: WeightsFormat):
    learner = LearnerConfig(
        objective=section(Dpo(beta=0.5)),
        learning_rate=1e-2,
        imitation=ImitationConfig(weight=0.0, replay_per_step=0),
    )
    trainer = Trainer(settings(learner, train=train), model)
    mixed = batch().groups[:1]
    first, second, third = (trainer.take_step(Batch(step=n, groups=mixed)) for n in (1, 2, 3))
    assert first["actor/preference_loss"] == pytest.approx(math.log(2))
    assert second["actor/preference_loss"] < math.log(2)
    assert first["rewards/margins"] == pytest.approx(0, abs=1e-6)
    assert second["rewards/margins"] > 0
    assert third["rewards/margins"] > second["rewards/margins"]


def test_an_initial_model_that_was_not_loaded_is_missed_with_a_remedy(model: Path):
    rows = [imitated(Conversation(token_ids=(1, 2), mask=(0, 1)))]
    with pytest.raises(LearnerError, match=r"initial model needs policy.train lora, or an object"):
        Policy(PolicyConfig(), model).reference_logprobs(*padded(rows), temperature=1.0)


def test_bfloat16_and_recomputed_layers_give_nearly_the_same_step(model: Path):
    exact = Trainer(settings(LearnerConfig()), model).take_step(batch())
    for policy, tolerance in (
        (PolicyConfig(gradient_checkpointing=True), 1e-6),
        (PolicyConfig(precision="bf16", gradient_checkpointing=True), 0.05),
    ):
        config = msgspec.structs.replace(settings(LearnerConfig()), policy=policy)
        found = Trainer(config, model).take_step(batch())
        for name in ("actor/grad_norm", "actor/imitation_loss", "actor/entropy"):
            assert found[name] == pytest.approx(exact[name], rel=tolerance)


def test_a_checkpoint_in_bfloat16_goes_on_bit_by_bit(model: Path, tmp_path: Path):
    policy = PolicyConfig(train="lora", lora_rank=2, precision="bf16", gradient_checkpointing=True)
    config = msgspec.structs.replace(settings(LearnerConfig()), policy=policy)
    straight = Trainer(config, model)
    straight.take_step(batch())
    straight.save(tmp_path)
    resumed = Trainer(config, model, checkpoint=tmp_path)
    assert straight.take_step(batch(2)) == resumed.take_step(batch(2))


@pytest.mark.parametrize(("weight", "count", "rows"), [(2.0, 3, 2), (2.0, 1, 1), (0.0, 3, 0)])
def test_as_many_references_are_replayed_as_the_run_file_says(
    model: Path, weight: float, count: int, rows: int
):
    imitation = ImitationConfig(replay_weight=weight, replay_per_step=count)
    trainer = Trainer(settings(LearnerConfig(imitation=imitation)), model)
    found = [trainer.take_step(batch(step))["source/replay/rows"] for step in (1, 2)]
    assert found == [min(1, rows), rows]


def test_the_share_of_padding_is_reported(model: Path):
    metrics = Trainer(
        settings(LearnerConfig(imitation=ImitationConfig(replay_per_step=0))), model
    ).take_step(batch())
    lengths = [len(one.tokens.mask) for one in batch().groups[0].rollouts]
    assert len(set(lengths)) > 1
    # The reference, of 5 tokens, is in a separate micro-batch.
    used = len(lengths) * max(lengths) + 5
    assert metrics["perf/padding_share"] == pytest.approx(1 - (sum(lengths) + 5) / used)


def test_a_batch_out_of_turn_is_refused(model: Path):
    trainer = Trainer(settings(LearnerConfig()), model)
    with pytest.raises(LearnerError, match="step 1 is next, got step 2"):
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

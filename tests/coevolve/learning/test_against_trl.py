"""The learner's losses and gradients compared with TRL's `GRPOTrainer`, on the same tokens.

Both are in float32 and compute the same sums in another order. Losses agree to a relative 1e-5, or
to 1e-6 if their terms cancel; each tensor of the gradient agrees to 1e-4 of its norm. By default
TRL weights its KL term by the importance ratio (DeepSeek-V3.2); GRPO's own term, which the learner
uses, has no weight.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from coevolve.learning.batch import Batch
from coevolve.learning.constraints import Constraints
from coevolve.learning.group import BatchGroup
from coevolve.learning.losses import aggregation
from coevolve.learning.losses.policy_gradient import PolicyGradient
from coevolve.learning.metrics import StepMetrics
from coevolve.learning.objective_registry import objective_of, section
from coevolve.learning.objectives.dapo import Dapo
from coevolve.learning.objectives.dr_grpo import DrGrpo
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.objectives.gspo import Gspo
from coevolve.learning.optimizers import BETAS
from coevolve.learning.policy import Policy, padded
from coevolve.learning.rows import Conversation, Row, sides
from coevolve.learning.step_loss import StepLoss
from coevolve.learning.trainer import Trainer
from coevolve.models.load import read_model
from coevolve.models.model_folder import TINY_FOLDER
from protocols import columns
from protocols.config import LearnerConfig, PolicyConfig, RolloutConfig, RunConfig
from protocols.learner_config import ImitationConfig
from protocols.learning import TrainedGroup
from protocols.rollouts import Rollout, Tokens
from tests.bench.trl_peer import TrlPeer, trl_inputs, written_columns
from tests.learning import moments, rollout

SIZE = 6
CAP = 1.05
TOKENS = 16
"""TRL's `max_completion_length`, and the constant that the learner divides by."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tiny policy, some steps away from version 0."""
    folder = tmp_path_factory.mktemp("trained")
    model = read_model(TINY_FOLDER)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.003 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder)
    return folder


def conversation(policy: Policy, rng: np.random.Generator) -> Tokens:
    """Return two turns of the policy between given tokens, from a sampler that is slightly off."""
    parts = [int(n) for n in rng.integers(2, 7, size=5)]
    mask = [
        value for value, count in zip((0, 1, 0, 1, 0), parts, strict=True) for _ in range(count)
    ]
    ids = [int(n) for n in rng.integers(6, 700, size=len(mask))]
    row = Row(sides=(Conversation(token_ids=ids, mask=mask),), streams=())
    with torch.no_grad():
        exact, _ = policy.logprobs(*padded([row]), temperature=1.0)
    noisy = iter(exact.numpy() + rng.normal(0, 0.1, size=len(exact)))
    return Tokens(
        token_ids=columns.int32(ids),
        mask=columns.uint8(mask),
        logprobs=columns.float32([float(next(noisy)) if each else 0.0 for each in mask]),
        versions=columns.int32([0 if each else -1 for each in mask]),
    )


@pytest.fixture(scope="module")
def rollouts(trained: Path) -> tuple[Rollout, ...]:
    """Return a group with two successes."""
    policy = Policy(PolicyConfig(), trained)
    rng = np.random.default_rng(1)
    first = rollout(1, 0, size=SIZE)
    return tuple(
        msgspec.structs.replace(
            first,
            index=index,
            tokens=conversation(policy, rng),
            reward=float(index < 2),
            turns_passed=2 if index < 2 else 1,
            ended="finished" if index < 2 else "wrong",
        )
        for index in range(SIZE)
    )


def settings(learner: LearnerConfig) -> RunConfig:
    """Return settings with one group per step, without imitation and gradient clipping."""
    learner = msgspec.structs.replace(
        learner,
        groups_per_step=1,
        imitation=ImitationConfig(replay_per_step=0),
        max_grad_norm=1e9,
        loss_normalizer_tokens=TOKENS,
        importance_cap=CAP,
    )
    return RunConfig(name="trl", rollout=RolloutConfig(group_size=SIZE), learner=learner)


def group_of(rollouts: Sequence[Rollout]) -> BatchGroup:
    record = TrainedGroup(
        group_id="g1", group=1, task_id="t1", sequences=(), successes=2, use="policy_gradient"
    )
    return BatchGroup(record=record, rollouts=tuple(rollouts), reference=None)


def learned(
    config: RunConfig, group: BatchGroup, weights: Path, folder: Path
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return the learner's loss, and its gradient by parameter, taken from Adam's first step."""
    trainer = Trainer(config, TINY_FOLDER, weights=weights)
    metrics = trainer.take_step(Batch(step=1, groups=(group,)))
    trainer.save(folder)
    averages = moments(folder, "objective")["exp_avg"]
    gradients = {name: average / (1 - BETAS[0]) for name, average in averages.items()}
    return metrics["actor/pg_loss"] + metrics["actor/kl_loss"], gradients


def updated(
    config: RunConfig, rows: Sequence[Row], weights: Path
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return the learner's loss and gradient for an update of ``rows`` from any starting point."""
    learner = config.learner
    policy = Policy(config.policy, TINY_FOLDER, weights=weights, with_reference=True)
    rule = gradient_of(learner).aggregation
    lengths = [row.written for row in rows]
    step_metrics = StepMetrics(level=learner.importance, cap=learner.importance_cap)
    StepLoss(
        policy,
        config,
        constraints=Constraints(policy.vocabulary),
        normalizer=aggregation.of_batch(rule, lengths, expected_tokens=float(SIZE * TOKENS)),
        step_metrics=step_metrics,
        version=0,
    ).add(rows, compares=learner.kl_coefficient > 0)
    names = [name for name, _ in read_model(TINY_FOLDER).named_parameters()]
    gradients = dict(zip(names, (each.grad for each in policy.parameters()), strict=True))
    assert step_metrics.metrics(1)["actor/pg_clipfrac"] > 0
    return step_metrics.loss, {name: each for name, each in gradients.items() if each is not None}


def gradient_of(learner: LearnerConfig) -> PolicyGradient:
    objective = objective_of(learner)
    assert isinstance(objective, PolicyGradient)
    return objective


def trl_learned(
    config: RunConfig, rows: Sequence[Row], weights: Path, folder: Path, loss_type: str
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return TRL's loss and gradient by parameter."""
    learner, objective = config.learner, gradient_of(config.learner)
    peer = TrlPeer(
        weights,
        folder,
        rows=len(rows),
        loss_type=loss_type,
        importance_sampling_level="sequence" if isinstance(objective, Gspo) else "token",
        beta=learner.kl_coefficient,
        epsilon=objective.clip_low,
        epsilon_high=objective.clip_high,
        max_completion_length=TOKENS,
        use_bias_correction_kl=False,
    )
    peer.use_importance_weights()
    inputs = trl_inputs(rows)
    sampler = written_columns(rows, [side.rollout_logprobs for side in sides(rows)])
    start = peer.logprobs(inputs)
    if rows[0].sides[0].old_logprobs:
        start = written_columns(rows, [at_positions(side) for side in sides(rows)])
        inputs["old_per_token_logps"] = start
    inputs["importance_sampling_ratio"] = (start - sampler).exp().clamp(max=CAP)
    if learner.kl_coefficient:
        inputs["ref_per_token_logps"] = TrlPeer(TINY_FOLDER, folder, rows=SIZE).logprobs(inputs)
    loss = peer.loss(inputs)
    loss.backward()
    gradients = {name: each.grad for name, each in peer.model.named_parameters()}
    found = {name: each for name, each in gradients.items() if each is not None}
    return float(loss.detach()), found


def at_positions(side: Conversation) -> list[float]:
    """Return ``old_logprobs`` with zeros for the tokens that the policy did not write."""
    written = iter(side.old_logprobs)
    return [next(written) if each else 0.0 for each in side.mask]


def assert_alike(
    found: tuple[float, dict[str, torch.Tensor]], expected: tuple[float, dict[str, torch.Tensor]]
):
    assert found[0] == pytest.approx(expected[0], rel=1e-5, abs=1e-6)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        assert (found[1][name] - gradient).norm() <= 1e-4 * gradient.norm(), name


KINDS = pytest.mark.parametrize(
    ("objective", "loss_type"),
    [
        (Grpo(aggregation="sequence_mean", clip_low=0.05, clip_high=0.07), "grpo"),
        (DrGrpo(clip_low=0.05, clip_high=0.07), "dr_grpo"),
        (Dapo(clip_low=0.05, clip_high=0.07), "dapo"),
        (Gspo(), "grpo"),
    ],
    ids=["grpo", "dr_grpo", "dapo", "gspo"],
)
DIVERGENCE = pytest.mark.parametrize("kl_coefficient", [0.0, 0.1], ids=["", "kl"])


@KINDS
@DIVERGENCE
def test_loss_and_gradient_of_a_step_are_those_of_trl(
    objective: PolicyGradient,
    loss_type: str,
    kl_coefficient: float,
    rollouts: tuple[Rollout, ...],
    trained: Path,
    tmp_path: Path,
):
    config = settings(LearnerConfig(objective=section(objective), kl_coefficient=kl_coefficient))
    group = group_of(rollouts)
    rows = objective.rows(group, config.learner)
    expected = trl_learned(config, rows, trained, tmp_path, loss_type)
    assert_alike(learned(config, group, trained, tmp_path), expected)


@KINDS
@DIVERGENCE
def test_where_the_clip_binds_loss_and_gradient_are_those_of_trl(
    objective: PolicyGradient,
    loss_type: str,
    kl_coefficient: float,
    rollouts: tuple[Rollout, ...],
    trained: Path,
    tmp_path: Path,
):
    config = settings(LearnerConfig(objective=section(objective), kl_coefficient=kl_coefficient))
    rng = np.random.default_rng(2)
    rows = [
        replace(
            row,
            sides=tuple(
                replace(
                    side,
                    old_logprobs=[
                        logprob + float(rng.normal(0, 0.1))
                        for logprob, written in zip(side.rollout_logprobs, side.mask, strict=True)
                        if written
                    ],
                )
                for side in row.sides
            ),
        )
        for row in objective.rows(group_of(rollouts), config.learner)
    ]
    expected = trl_learned(config, rows, trained, tmp_path, loss_type)
    assert_alike(updated(config, rows, trained), expected)

"""The loss of micro-batches, compared with slow forward passes of one token each.

Letters: B rows, N tokens that the policy wrote.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from coevolve.learning.batch import Batch
from coevolve.learning.constraints import Constraints
from coevolve.learning.losses.aggregation import LossNormalizer
from coevolve.learning.losses.imitation import imitated
from coevolve.learning.metrics import StepMetrics
from coevolve.learning.objectives.dpo import Dpo
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.policy import Policy
from coevolve.learning.rows import Conversation, Row, Stream
from coevolve.learning.step_loss import StepLoss
from coevolve.learning.trainer import Trainer
from protocols.config import LearnerConfig, PolicyConfig, RolloutConfig, RunConfig
from protocols.learner_config import ImitationConfig
from tests.coevolve.learning.test_trainer import batch, slow_logprob
from tests.learning import small_model

TOKENS = 7.0
"""Divisor of the token losses; that of pairs is 2."""

TEMPERATURES = pytest.mark.parametrize("temperature", [1.0, 0.6])

ADVANTAGES = ((1.5, 1.5, -0.5), (-2.0,))
SAMPLED = tuple(
    Row(sides=(side,), streams=(Stream(component=Grpo(), targets=advantages),))
    for side, advantages in zip(
        (
            Conversation(
                token_ids=(1, 5, 9, 13, 2),
                mask=(0, 1, 1, 0, 1),
                rollout_logprobs=(0.0, -4.0, -4.2, 0.0, -3.9),
            ),
            Conversation(token_ids=(3, 4, 8), mask=(1, 0, 1), rollout_logprobs=(-4.0, 0.0, -4.1)),
        ),
        ADVANTAGES,
        strict=True,
    )
)
GIVEN = (
    (Conversation(token_ids=(1, 2, 9, 10), mask=(0, 0, 1, 1)), 2.0),
    (Conversation(token_ids=(1, 7, 11), mask=(0, 1, 1)), 0.5),
)
REFERENCES = tuple(imitated(side, weight) for side, weight in GIVEN)
BETA = 0.5
PAIR = Row(
    sides=(
        Conversation(token_ids=(1, 2, 9, 5), mask=(0, 0, 1, 1)),
        Conversation(token_ids=(1, 2, 7), mask=(0, 0, 1)),
    ),
    streams=(Stream(component=Dpo(beta=BETA), targets="initial"),),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return weights that differ from those of ``model``, so that no preference is exactly half."""
    return small_model(tmp_path_factory.mktemp("moved"), seed=1)


def settings(temperature: float, learner: LearnerConfig | None = None) -> RunConfig:
    return RunConfig(
        name="test",
        rollout=RolloutConfig(group_size=4, temperature=temperature),
        learner=learner or LearnerConfig(importance_cap=1.2),
    )


def of(
    rows: Sequence[Row], temperature: float, base: Path, weights: Path
) -> tuple[StepMetrics, list[torch.Tensor]]:
    """Return the sums and the gradient of a micro-batch."""
    config = settings(temperature)
    policy = Policy(PolicyConfig(), base, weights=weights, with_reference=True)
    step_metrics = StepMetrics(level="token", cap=1.2)
    StepLoss(
        policy,
        config,
        constraints=Constraints(policy.vocabulary),
        normalizer=LossNormalizer(aggregation="constant", tokens=TOKENS, rows=2.0),
        step_metrics=step_metrics,
        version=0,
    ).add(rows, compares=True)
    return step_metrics, [each.grad for each in policy.parameters() if each.grad is not None]


def assert_follows(found: list[torch.Tensor], slow: torch.Tensor, weights: torch.nn.Module) -> None:
    expected = torch.autograd.grad(slow, list(weights.parameters()))
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-3, atol=1e-6)


@TEMPERATURES
def test_rollouts_are_scored_at_the_temperature_of_rollouts_each_token_with_its_own_advantage(
    model: Path, moved: Path, temperature: float
):
    step_metrics, gradient = of(SAMPLED, temperature, model, moved)
    slow_model = AutoModelForCausalLM.from_pretrained(moved).eval()
    loss, value = torch.zeros(()), 0.0
    for row, of_tokens in zip(SAMPLED, ADVANTAGES, strict=True):
        (side,), advantages = row.sides, iter(of_tokens)
        for position in range(1, len(side.token_ids)):
            if not side.mask[position]:
                continue
            logprob = slow_logprob(slow_model, list(side.token_ids), position, temperature)
            ratio = min(math.exp(logprob.item() - side.rollout_logprobs[position]), 1.2)
            advantage = next(advantages)
            loss = loss - ratio * advantage * logprob / TOKENS
            value -= ratio * advantage / TOKENS
    assert step_metrics.metrics(1)["actor/pg_loss"] == pytest.approx(value, rel=1e-4)
    mean = (1.5 + 1.5 - 0.5 - 2.0) / 4
    assert step_metrics.metrics(1)["critic/advantages/mean"] == pytest.approx(mean)
    assert_follows(gradient, loss, slow_model)


@TEMPERATURES
def test_references_are_scored_at_temperature_1(model: Path, moved: Path, temperature: float):
    step_metrics, gradient = of(REFERENCES, temperature, model, moved)
    slow_model = AutoModelForCausalLM.from_pretrained(moved).eval()
    loss = torch.zeros(())
    for side, weight in GIVEN:
        for position in range(1, len(side.token_ids)):
            if side.mask[position]:
                logprob = slow_logprob(slow_model, list(side.token_ids), position, 1.0)
                loss = loss - weight * logprob / TOKENS
    assert step_metrics.metrics(1)["actor/imitation_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert_follows(gradient, loss, slow_model)


@TEMPERATURES
def test_pairs_are_scored_at_temperature_1_by_policy_and_reference(
    model: Path, moved: Path, temperature: float
):
    step_metrics, gradient = of([PAIR], temperature, model, moved)
    slow_model = AutoModelForCausalLM.from_pretrained(moved).eval()
    base = AutoModelForCausalLM.from_pretrained(model).eval()

    def gain(side: Conversation) -> torch.Tensor:
        total = torch.zeros(())
        for position in range(1, len(side.token_ids)):
            if side.mask[position]:
                own = slow_logprob(slow_model, list(side.token_ids), position, 1.0)
                with torch.no_grad():
                    reference = slow_logprob(base, list(side.token_ids), position, 1.0)
                total = total + own - reference
        return total

    margin = BETA * (gain(PAIR.sides[0]) - gain(PAIR.sides[1]))
    loss = (1 + (-margin).exp()).log() / 2.0
    assert abs(margin.item()) > 1e-3
    assert step_metrics.metrics(1)["actor/preference_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert_follows(gradient, loss, slow_model)


def test_a_micro_batch_of_two_kinds_is_refused(model: Path):
    with pytest.raises(ValueError, match="needs rows of one kind, found several"):
        of([REFERENCES[0], SAMPLED[0]], 0.6, model, model)


def test_a_micro_batch_without_rows_adds_nothing_to_the_gradient(model: Path):
    step_metrics, gradient = of([], 0.6, model, model)
    assert step_metrics.loss == 0.0
    assert all(not each.any() for each in gradient)


@pytest.mark.parametrize("kind", ["sft", "dpo"])
def test_a_step_of_sft_or_dpo_does_not_know_the_temperature_of_rollouts(
    model: Path, tmp_path: Path, kind: str
):
    learner = LearnerConfig(
        objective={"kind": kind}, imitation=ImitationConfig(weight=0.0, replay_per_step=0)
    )
    step = Batch(step=1, groups=batch().groups[:1])
    written: list[bytes] = []
    for temperature in (1.0, 0.6):
        trainer = Trainer(settings(temperature, learner), model)
        metrics = trainer.take_step(step)
        assert metrics["actor/grad_norm"] > 0
        folder = tmp_path / str(temperature)
        folder.mkdir()
        trainer.save_weights(folder)
        written.append((folder / "model.safetensors").read_bytes())
    assert written[0] == written[1] != (model / "model.safetensors").read_bytes()

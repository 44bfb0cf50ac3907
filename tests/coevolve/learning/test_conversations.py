"""A rollout of several conversations is trained as its tokens by hand, and counts once."""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import torch
from transformers import AutoModelForCausalLM

from coevolve.learning.batch import Batch, batch_metrics
from coevolve.learning.group import BatchGroup
from coevolve.learning.losses import credit
from coevolve.learning.objective import Objective
from coevolve.learning.objective_registry import section
from coevolve.learning.objectives.dapo import Dapo
from coevolve.learning.objectives.dpo import Dpo
from coevolve.learning.objectives.dr_grpo import DrGrpo
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.objectives.gspo import Gspo
from coevolve.learning.objectives.sft import Sft
from coevolve.learning.optimizers import BETAS
from coevolve.learning.trainer import Trainer
from coevolve.signals.groups import summary_of
from protocols import columns
from protocols.config import LearnerConfig, RunConfig
from protocols.learner_config import ImitationConfig
from protocols.learning import TrainedGroup
from protocols.rollouts import Rollout, Tokens
from tests.coevolve.learning.test_trainer import settings, slow_logprob
from tests.learning import moments, small_model, talking

POLICY_GRADIENTS = [Grpo(), Grpo(aggregation="sequence_mean"), DrGrpo(), Dapo(), Gspo()]


def said(text: str, *marks: int) -> Tokens:
    """Return a conversation of the tokens of ``text``; the sampled ones are at ``marks``."""
    ids = [int(each) for each in text.split()]
    mask = [int(place in marks) for place in range(len(ids))]
    return Tokens(
        token_ids=columns.int32(ids),
        mask=columns.uint8(mask),
        logprobs=columns.float32([-4.0 - each / 8 if each else 0.0 for each in mask]),
        versions=columns.int32([each - 1 for each in mask]),
    )


SHARED = said("3 5 7 11 13", 2, 3)
"""A conversation, which ``FORKED`` begins as well."""

FORKED = said("3 5 7 11 17 19 23", 5, 6)
HELPER = said("29 31 37", 1, 2)
GROUP = (
    talking(SHARED, FORKED, HELPER, index=0),
    talking(said("3 5 8 9", 2, 3), index=1, passed=False),
    talking(said("3 5 2", 2), said("4 6 10 12 14 16", 1, 4, 5), index=2, passed=False),
    talking(said("3 5 1 2 6", 2, 3, 4), index=3, passed=False),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def batch(rollouts: Sequence[Rollout] = GROUP) -> Batch:
    record = TrainedGroup(
        group_id="g1",
        group=1,
        task_id="t1",
        sequences=(1, 2, 3, 4),
        successes=1,
        use="policy_gradient",
    )
    group = BatchGroup(record=record, rollouts=tuple(rollouts), reference=None)
    return Batch(step=1, groups=(group,))


def config_of(objective: Objective) -> RunConfig:
    learner = LearnerConfig(
        objective=section(objective),
        groups_per_step=1,
        learning_rate=1e-12,
        max_grad_norm=1e9,
        importance="off" if isinstance(objective, Gspo) else "token",
        imitation=ImitationConfig(weight=0, replay_per_step=0),
    )
    return settings(learner)


def by_hand(rollout: Rollout) -> list[tuple[list[int], int, float]]:
    """Return (token ids, position, sampler's logprob) of each sampled token of a rollout."""
    return [
        (columns.from_int32(each.token_ids), place, columns.from_float32(each.logprobs)[place])
        for each in rollout.conversations
        for place, mark in enumerate(each.mask)
        if mark
    ]


def gradient_of(config: RunConfig, model: Path, folder: Path) -> list[torch.Tensor]:
    trainer = Trainer(config, model)
    trainer.take_step(batch())
    trainer.save(folder)
    averages = moments(folder, "objective")["exp_avg"].values()
    return [average / (1 - BETAS[0]) for average in averages]


def assert_same(found: list[torch.Tensor], loss: torch.Tensor, slow: torch.nn.Module) -> None:
    expected = torch.autograd.grad(loss, list(slow.parameters()))
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-3, atol=1e-6)


def slow_loss(model: torch.nn.Module, objective: Objective, config: RunConfig) -> torch.Tensor:
    """Return the policy gradient's loss, token by token; a rollout counts once."""
    centred = isinstance(objective, DrGrpo)
    rule = objective.aggregation_rule() or "token_mean"
    every = sum(len(by_hand(one)) for one in GROUP)
    loss = torch.zeros(())
    for one in GROUP:
        advantage = (3.0 if one.succeeded else -1.0) * (0.25 if centred else 1 / math.sqrt(3))
        tokens = by_hand(one)
        scale = {
            "constant": 1 / (4 * config.learner.loss_normalizer_tokens),
            "token_mean": 1 / every,
            "sequence_mean": 1 / len(GROUP) / len(tokens),
        }[rule]
        for ids, place, sampler in tokens:
            logprob = slow_logprob(model, ids, place, 1.0)
            weight = min(math.exp(logprob.item() - sampler), config.learner.importance_cap)
            weight = 1.0 if config.learner.importance == "off" else weight
            loss = loss - scale * weight * advantage * logprob
    return loss


@pytest.mark.parametrize("objective", POLICY_GRADIENTS, ids=lambda each: type(each).__name__)
def test_the_gradient_of_conversations_is_that_of_their_tokens_by_hand(
    model: Path, tmp_path: Path, objective: Objective
) -> None:
    config = config_of(objective)
    slow = AutoModelForCausalLM.from_pretrained(model).eval()
    found = gradient_of(config, model, tmp_path)
    assert_same(found, slow_loss(slow, objective, config), slow)


def test_fine_tuning_learns_each_token_of_each_conversation_once(
    model: Path, tmp_path: Path
) -> None:
    slow = AutoModelForCausalLM.from_pretrained(model).eval()
    tokens = by_hand(GROUP[0])
    loss = -torch.stack([slow_logprob(slow, ids, place, 1.0) for ids, place, _ in tokens]).mean()
    assert_same(gradient_of(config_of(Sft()), model, tmp_path), loss, slow)


def test_a_preference_compares_attempts_with_all_of_their_conversations(
    model: Path, tmp_path: Path
) -> None:
    slow = AutoModelForCausalLM.from_pretrained(model).eval()
    base = AutoModelForCausalLM.from_pretrained(model).eval()

    def gain(rollout: Rollout) -> torch.Tensor:
        terms = [
            slow_logprob(slow, ids, place, 1.0) - slow_logprob(base, ids, place, 1.0).detach()
            for ids, place, _ in by_hand(rollout)
        ]
        return torch.stack(terms).sum()

    loss = -torch.nn.functional.logsigmoid(0.5 * (gain(GROUP[0]) - gain(GROUP[3])))
    assert_same(gradient_of(config_of(Dpo(beta=0.5)), model, tmp_path), loss, slow)


def test_an_attempt_counts_once_and_its_tokens_all() -> None:
    metrics = batch_metrics(batch())
    assert metrics["response_length/max"] == 6.0
    assert metrics["response_length/mean"] == (6 + 2 + 4 + 3) / 4
    assert metrics["perf/total_num_tokens"] == 15 + 4 + 9 + 5
    assert metrics["critic/score/mean"] == 0.25
    members = list(enumerate(GROUP, 1))
    summary = summary_of(members, root="t1", calls=0)
    assert (summary.rollouts, summary.successes, summary.sampled_tokens) == (4, 1, 15)
    assert summary.surprise == pytest.approx(4.125)


def test_further_conversations_belong_to_the_last_turn() -> None:
    def turned(*starts: int, passed: int, index: int) -> Rollout:
        one = talking(said("1 2 3 4 5", 1, 3), said("6 7", 1), index=index)
        return msgspec.structs.replace(one, turn_starts=starts, turns_passed=passed)

    def centred(rewards: Sequence[float]) -> list[float]:
        return [each - sum(rewards) / len(rewards) for each in rewards]

    found = credit.by_turn(
        (turned(0, 2, passed=2, index=0), turned(0, 2, passed=1, index=1)), centred
    )
    assert found == [[0.0, 0.5, 0.5], [0.0, -0.5, -0.5]]

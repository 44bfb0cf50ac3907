"""What one optimizer step trains on, and what can be said of it without the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from coevolve.learning.groups import Group, use_of
from coevolve.learning.objectives import dpo, policy_gradient, sft
from coevolve.learning.rewards import shaped
from protocols import columns
from protocols.config import LearnerConfig
from protocols.learning import TrainedGroup
from protocols.objectives import Dpo, PolicyGradient, Sft
from protocols.rollouts import Rollout


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A validated solution as the policy would have written it."""

    token_ids: tuple[int, ...]
    mask: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BatchGroup:
    """One group of a batch with everything that the step needs of it."""

    record: TrainedGroup
    rollouts: tuple[Rollout, ...]
    reference: Reference | None
    """Where ``record.use`` is ``imitation``."""

    worthy: tuple[int, ...] | None = None
    """Positions of the rollouts that fine-tuning learns from; None where reward alone decides."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The groups of step ``step``."""

    step: int
    groups: tuple[BatchGroup, ...]


@dataclass(frozen=True, kw_only=True)
class SampledRow:
    """A rollout, to be made more or less likely."""

    token_ids: Sequence[int]
    mask: Sequence[int]
    sampler_logprobs: Sequence[float]
    advantage: float
    start_logprobs: Sequence[float] = ()
    """Of the written tokens but a first one, by the policy at the start of the step; empty where
    the step makes a single update, so that this is the policy itself."""


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """A reference, to be made more likely."""

    token_ids: Sequence[int]
    mask: Sequence[int]
    weight: float


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One side of a pair."""

    token_ids: Sequence[int]
    mask: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class PairRow:
    """Two conversations of one task, of which the one is to be preferred to the other."""

    better: Conversation
    worse: Conversation
    beta: float


Row = SampledRow | ReferenceRow | PairRow
"""What one optimizer update learns from; a row is never split over two forwards."""


def conversations(row: Row) -> tuple[SampledRow | ReferenceRow | Conversation, ...]:
    """Return the token sequences of a row: the better one of a pair first."""
    return (row.better, row.worse) if isinstance(row, PairRow) else (row,)


def row_length(row: Row) -> int:
    """Return the tokens of the row's longest sequence."""
    return max(len(each.token_ids) for each in conversations(row))


def trained_group(group: Group, config: LearnerConfig) -> TrainedGroup:
    """Return the record of ``group`` that says what the step makes of it."""
    return TrainedGroup(
        group_id=group.group_id,
        group=group.number,
        task_id=group.task_id,
        sequences=tuple(sequence for sequence, _ in group.rollouts),
        successes=group.successes,
        use=use_of(group, config),
    )


def learned_rows(group: BatchGroup, config: LearnerConfig) -> Sequence[Row]:
    """Return what the objective makes of a group that is not all alike."""
    rewards = [rollout.reward for rollout in group.rollouts]
    match config.objective:
        case Sft():
            worthy = sft.best(rewards) if group.worthy is None else group.worthy
            return [_imitated(group.rollouts[index]) for index in worthy]
        case Dpo(beta=beta):
            return [
                PairRow(
                    better=_conversation(group.rollouts[better]),
                    worse=_conversation(group.rollouts[worse]),
                    beta=beta,
                )
                for better, worse in dpo.pairs(rewards)
            ]
        case objective:
            return sampled_rows(group, objective, rarity_bonus=config.rarity_bonus)


def sampled_rows(
    group: BatchGroup, objective: PolicyGradient, *, rarity_bonus: float = 0.0
) -> list[SampledRow]:
    """Return the rollouts of a group with their advantages."""
    rewards = shaped(group.rollouts, rarity_bonus)
    advantages = policy_gradient.surrogate(objective).advantages(rewards)
    return [
        SampledRow(
            token_ids=columns.from_int32(rollout.tokens.token_ids),
            mask=list(rollout.tokens.mask),
            sampler_logprobs=columns.from_float32(rollout.tokens.logprobs),
            advantage=advantage,
        )
        for rollout, advantage in zip(group.rollouts, advantages, strict=True)
    ]


def _conversation(rollout: Rollout) -> Conversation:
    return Conversation(
        token_ids=columns.from_int32(rollout.tokens.token_ids), mask=list(rollout.tokens.mask)
    )


def _imitated(rollout: Rollout) -> ReferenceRow:
    own = _conversation(rollout)
    return ReferenceRow(token_ids=own.token_ids, mask=own.mask, weight=1.0)


def batch_metrics(batch: Batch) -> dict[str, float]:
    """Return verl's and TRL's statistics of a batch's rollouts.

    ``response_length`` counts the tokens that the policy wrote, ``prompt_length`` those before its
    first one, ``num_turns`` the turns that it came to; the lag is that of a rollout's oldest token
    behind the version that is trained.
    """
    rollouts = [rollout for group in batch.groups for rollout in group.rollouts]
    rewards = [rollout.reward for rollout in rollouts]
    written = [sum(rollout.tokens.mask) for rollout in rollouts]
    lags = [batch.step - 1 - rollout.version_min for rollout in rollouts]
    sizes = [len(group.rollouts) for group in batch.groups]
    wins = [group.record.successes for group in batch.groups]
    alike = [len({rollout.reward for rollout in group.rollouts}) == 1 for group in batch.groups]
    all_fail = sum(won == 0 for won in wins)
    all_pass = sum(won == size for won, size in zip(wins, sizes, strict=True))
    return {
        "critic/score/mean": fmean(rewards),
        "critic/rewards/mean": fmean(rewards),
        "response_length/mean": fmean(written),
        "response_length/max": float(max(written)),
        "response_length/min": float(min(written)),
        "prompt_length/mean": fmean(_prompt_length(rollout) for rollout in rollouts),
        "num_turns/mean": fmean(
            min(rollout.turns_passed + 1, rollout.turns_total) for rollout in rollouts
        ),
        "training/off_policy/version_lag_mean": fmean(lags),
        "training/off_policy/version_lag_max": float(max(lags)),
        "frac_reward_zero_std": fmean(alike),
        "groups/all_fail": float(all_fail),
        "groups/all_pass": float(all_pass),
        "groups/mixed": float(len(wins) - all_fail - all_pass),
        "perf/total_num_tokens": float(sum(rollout.tokens.count for rollout in rollouts)),
    }


def _prompt_length(rollout: Rollout) -> int:
    first = rollout.tokens.mask.find(1)
    return first if first >= 0 else rollout.tokens.count

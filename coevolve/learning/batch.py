"""The training data of one optimizer step, and statistics that do not need the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from coevolve.learning.group import BatchGroup, Group, Shape, own_rewards
from coevolve.learning.groups import use_of
from coevolve.learning.losses.imitation import imitated
from coevolve.learning.rows import Conversation, Row, conversations
from protocols.learner_config import LearnerConfig
from protocols.learning import Stage, TrainedGroup
from protocols.rollouts import Rollout


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Learning rates of one step."""

    objective: float
    imitation: float

    def metrics(self) -> dict[str, float]:
        """Return the step's metrics for these rates."""
        return {"actor/lr": self.objective, "actor/imitation_lr": self.imitation}

    @classmethod
    def reported(cls, metrics: Mapping[str, float]) -> "Rates":
        """Return the rates in a step's metrics."""
        return cls(objective=metrics["actor/lr"], imitation=metrics["actor/imitation_lr"])


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The groups of step ``step``."""

    step: int
    groups: tuple[BatchGroup, ...]
    rates: Rates | None = None
    """Learning rates that the step had when it was first taken; None means the config's rates. A
    run that is resumed with another number of steps has another schedule from there on."""

    kept: tuple[Conversation, ...] = ()
    """References that this and later steps may replay, besides those that a step imitated."""


def trained_group(
    group: Group, config: LearnerConfig, shape: Shape = own_rewards, stage: Stage = "loop"
) -> TrainedGroup:
    """Return the record of ``group``, which states how a step of ``stage`` uses it."""
    return TrainedGroup(
        group_id=group.group_id,
        group=group.number,
        task_id=group.task_id,
        sequences=tuple(sequence for sequence, _ in group.rollouts),
        successes=group.successes,
        use=use_of(group, config, shape, stage),
        instance=next((rollout.instance for _, rollout in group.rollouts), 0),
    )


def imitated_rows(group: BatchGroup, config: LearnerConfig) -> list[Row]:
    """Return the rows to imitate: the task's reference, or good rollouts of another author.

    The rollouts have weight 1, as in fine-tuning.
    """
    if group.reference is not None:
        return [imitated(group.reference, config.imitation.weight, "imitation")]
    return [
        imitated(side, source="imitation")
        for index in group.worthy or ()
        for side in conversations(group.rollouts[index])
    ]


def batch_metrics(batch: Batch) -> dict[str, float]:
    """Return statistics of a batch's rollouts, by verl's and TRL's names.

    ``response_length`` counts the tokens that the policy wrote in all conversations of an attempt,
    ``prompt_length`` the tokens before its first one, and ``num_turns`` the turns that it reached.
    The lag is that of a rollout's oldest token behind the version that is trained.
    """
    rollouts = [rollout for group in batch.groups for rollout in group.rollouts]
    rewards = [rollout.reward for rollout in rollouts]
    written = [rollout.sampled_tokens for rollout in rollouts]
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
        "response_length/clip_ratio": fmean(rollout.ended == "too_long" for rollout in rollouts),
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
        "groups/informative": float(
            sum(group.record.use == "policy_gradient" for group in batch.groups)
        ),
        "groups/imitated": float(sum(group.record.use == "imitation" for group in batch.groups)),
        "perf/total_num_tokens": float(sum(rollout.token_count for rollout in rollouts)),
    }


def _prompt_length(rollout: Rollout) -> int:
    first = rollout.tokens.mask.find(1)
    return first if first >= 0 else rollout.tokens.count

"""The training data of one optimizer step, and statistics that do not need the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_args

from coevolve.learning.groups import Group, Shape, own_rewards, use_of
from coevolve.learning.objectives import credit, dpo, policy_gradient, sft
from protocols import columns
from protocols.generation import Grammar
from protocols.learner_config import LearnerConfig
from protocols.learning import TrainedGroup
from protocols.objectives import Dpo, NoObjective, PolicyGradient, Sft
from protocols.rollouts import Rollout, Tokens


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A validated solution, written as the policy would write it."""

    token_ids: tuple[int, ...]
    mask: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BatchGroup:
    """One group of a batch, with all data that the step needs."""

    record: TrainedGroup
    rollouts: tuple[Rollout, ...]
    reference: Reference | None
    """Set if ``record.use`` is ``imitation``."""

    rewards: tuple[float, ...] = ()
    """Rewards to compare, by rollout; empty means the rollouts' own rewards."""

    worthy: tuple[int, ...] | None = None
    """Positions of the rollouts for fine-tuning; None if only the rewards decide."""

    grammar: Grammar | None = None
    """The grammar that restricted the policy's answers."""


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


Source = Literal["objective", "imitation", "replay"]
"""Why a step learns from a row: from ``learner.objective``, from the reference of a group that
failed as a whole, or from a replayed reference."""

SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True, kw_only=True)
class SampledRow:
    """A rollout whose probability the step raises or lowers."""

    token_ids: Sequence[int]
    mask: Sequence[int]
    rollout_logprobs: Sequence[float]
    group: int = 0
    """Position of its group among the step's groups for the objective."""

    advantages: Sequence[float]
    """One per written token except at position 0; the same holds for ``old_logprobs``."""

    grammar: Grammar | None = None
    """As in `BatchGroup`; each run of written tokens starts in the grammar's first state."""

    sampled_by: Sequence[int] = ()
    """By position, the version that sampled the token; -1 if none did, or if an older version
    computed keys or values that it attended to. Empty if unknown."""

    old_logprobs: Sequence[float] = ()
    """Logprobs of the policy at the start of the step. Empty if the step makes a single update,
    because the current policy then is that policy."""


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """A given token sequence whose probability the step raises."""

    token_ids: Sequence[int]
    mask: Sequence[int]
    weight: float
    source: Source = "objective"
    group: int = 0

    @classmethod
    def of(
        cls,
        given: "Reference | Conversation",
        weight: float = 1.0,
        *,
        source: Source = "objective",
        group: int = 0,
    ) -> "ReferenceRow":
        """Return the row that raises the probability of ``given``."""
        return cls(
            token_ids=given.token_ids, mask=given.mask, weight=weight, source=source, group=group
        )


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The tokens of a rollout: one side of a pair, or an example."""

    token_ids: Sequence[int]
    mask: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class PairRow:
    """Two conversations of one task; the policy should prefer the chosen one."""

    chosen: Conversation
    rejected: Conversation
    beta: float
    group: int = 0


Row = SampledRow | ReferenceRow | PairRow
"""Training data of one optimizer update; a row is never split over two forward passes."""


def conversations(row: Row) -> tuple[SampledRow | ReferenceRow | Conversation, ...]:
    """Return the token sequences of a row; of a pair, the chosen one first."""
    return (row.chosen, row.rejected) if isinstance(row, PairRow) else (row,)


def source_of(row: Row) -> Source:
    """Return why the step learns from the row."""
    return row.source if isinstance(row, ReferenceRow) else "objective"


def amounts(rows: Sequence[Row]) -> dict[str, float]:
    """Return the number of rows of each source, and of tokens in them that the step trains on."""
    found: dict[str, float] = {}
    for source in SOURCES:
        mine = [row for row in rows if source_of(row) == source]
        masks = [side.mask[1:] for row in mine for side in conversations(row)]
        found[f"source/{source}/rows"] = float(len(mine))
        found[f"source/{source}/tokens"] = float(sum(map(sum, masks)))
    return found


def row_length(row: Row) -> int:
    """Return the token count of the row's longest sequence."""
    return max(len(each.token_ids) for each in conversations(row))


def trained_group(group: Group, config: LearnerConfig, shape: Shape = own_rewards) -> TrainedGroup:
    """Return the record of ``group``, which states how the step uses it."""
    return TrainedGroup(
        group_id=group.group_id,
        group=group.number,
        task_id=group.task_id,
        sequences=tuple(sequence for sequence, _ in group.rollouts),
        successes=group.successes,
        use=use_of(group, config, shape),
        instance=next((rollout.instance for _, rollout in group.rollouts), 0),
    )


def learned_rows(group: BatchGroup, config: LearnerConfig, number: int = 0) -> Sequence[Row]:
    """Return the objective's rows for a group whose rollouts differ.

    ``number`` is the group's position among the step's groups for the objective.
    """
    rewards = [rollout.reward for rollout in group.rollouts]
    match config.objective:
        case Sft():
            worthy = sft.best(rewards) if group.worthy is None else group.worthy
            return [
                ReferenceRow.of(_conversation(group.rollouts[index]), group=number)
                for index in worthy
            ]
        case Dpo(beta=beta):
            return [
                PairRow(
                    chosen=_conversation(group.rollouts[chosen]),
                    rejected=_conversation(group.rollouts[rejected]),
                    beta=beta,
                    group=number,
                )
                for chosen, rejected in dpo.pairs(rewards)
            ]
        case NoObjective():
            return []
        case objective:
            return sampled_rows(group, objective, config, number)


def imitated_rows(group: BatchGroup, config: LearnerConfig) -> list[ReferenceRow]:
    """Return the rows to imitate: the task's reference, or good rollouts of another author.

    The rollouts have weight 1, as in fine-tuning.
    """
    if group.reference is not None:
        return [ReferenceRow.of(group.reference, config.imitation.weight, source="imitation")]
    return [
        ReferenceRow.of(_conversation(group.rollouts[index]), source="imitation")
        for index in group.worthy or ()
    ]


def sampled_rows(
    group: BatchGroup, objective: PolicyGradient, config: LearnerConfig, number: int = 0
) -> list[SampledRow]:
    """Return the rollouts of a group, with the advantages of their tokens."""
    plain = policy_gradient.surrogate(objective).advantages

    def compare(rewards: Sequence[float]) -> list[float]:
        return [a if a >= 0 else config.negative_weight * a for a in plain(rewards)]

    if config.credit == "turn":
        advantages = credit.by_turn(group.rollouts, compare)
    else:
        compared = compare(group.rewards or own_rewards(group.rollouts))
        advantages = [
            [advantage] * len(credit.written_positions(rollout.tokens.mask))
            for rollout, advantage in zip(group.rollouts, compared, strict=True)
        ]
    return [
        SampledRow(
            token_ids=columns.from_int32(rollout.tokens.token_ids),
            mask=list(rollout.tokens.mask),
            rollout_logprobs=columns.from_float32(rollout.tokens.logprobs),
            sampled_by=_sampled_by(rollout.tokens),
            advantages=of_tokens,
            grammar=group.grammar,
            group=number,
        )
        for rollout, of_tokens in zip(group.rollouts, advantages, strict=True)
    ]


def _sampled_by(tokens: Tokens) -> list[int]:
    versions = columns.from_int32(tokens.versions)
    caches = columns.from_int32(tokens.cache_versions) or versions
    return [version if version == c else -1 for version, c in zip(versions, caches, strict=True)]


def _conversation(rollout: Rollout) -> Conversation:
    return Conversation(
        token_ids=columns.from_int32(rollout.tokens.token_ids), mask=list(rollout.tokens.mask)
    )


def batch_metrics(batch: Batch) -> dict[str, float]:
    """Return statistics of a batch's rollouts, by verl's and TRL's names.

    ``response_length`` counts the tokens that the policy wrote, ``prompt_length`` the tokens before
    its first one, and ``num_turns`` the turns that it reached. The lag is that of a rollout's
    oldest token behind the version that is trained.
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
        "groups/informative": float(
            sum(group.record.use == "policy_gradient" for group in batch.groups)
        ),
        "groups/imitated": float(sum(group.record.use == "imitation" for group in batch.groups)),
        "perf/total_num_tokens": float(sum(rollout.tokens.count for rollout in rollouts)),
    }


def _prompt_length(rollout: Rollout) -> int:
    first = rollout.tokens.mask.find(1)
    return first if first >= 0 else rollout.tokens.count

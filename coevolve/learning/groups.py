"""Collects rollouts into groups and groups into batches, as a fold over the journal's order.

Guarantees:

- A group is complete when every member has arrived, including failed ones. Complete groups queue in
  the order in which their last members entered the journal.
- Each complete group is judged once, for the step that is being filled when its turn comes: it
  joins that step's batch or is discarded. The result does not depend on the clock or on how records
  are batched, so a learner that was killed makes the same next batch.
- Reasons for discarding a group: *failed*, if fewer than two rollouts can be compared; *stale*, if
  a rollout is older than the staleness bound allows at that step; *abandoned*, if a version that
  the guard has abandoned wrote part of it; *zero_variance*, if it is uninformative (its rollouts do
  not differ, and no reference is imitated) and the step may replace more groups (DAPO, arXiv
  2503.14476, dynamic sampling; bounded by ``learner.refill_batches``).
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from coevolve.learning.group import Group, Shape, own_rewards
from coevolve.learning.objective_registry import objective_of
from protocols.learner_config import LearnerConfig
from protocols.learning import DiscardReason as Reason
from protocols.learning import GroupDiscarded, Stage, Use
from protocols.rollouts import FailedRollout, Rollout

COMPARABLE = 2
"""Minimum number of rollouts for a meaningful advantage."""


def use_of(
    group: Group, config: LearnerConfig, shape: Shape = own_rewards, stage: Stage = "loop"
) -> Use:
    """Return how a step of ``stage`` uses the group.

    An objective on samples of the policy does not use rollouts of other authors; they are imitated.
    A reference is imitated only if it was confirmed when the group was requested. The warm start
    imitates every such reference, and does nothing else.
    """
    rollouts = [rollout for _, rollout in group.rollouts]
    objective = objective_of(config)
    needs_own = objective.is_on_policy or config.only_imitates
    if needs_own and any(rollout.author != "policy" for rollout in rollouts):
        return "imitation"
    is_confirmed = all(rollout.imitable for rollout in rollouts)
    if stage == "warm_start":
        return "imitation" if is_confirmed else "nothing"
    is_hard = group.successes <= config.imitation.success_share * len(rollouts)
    if is_hard and config.imitation.weight > 0 and is_confirmed:
        return "imitation"
    informative = objective.is_informative(rollouts, shape(rollouts), config)
    return "policy_gradient" if informative else "nothing"


@dataclass(frozen=True, kw_only=True)
class Discard:
    """A group that no step trains on, and the record of this."""

    sequences: tuple[int, ...]
    message: GroupDiscarded


@dataclass
class _Gathering:
    """A group with members still in progress."""

    members: dict[int, tuple[int, Rollout | FailedRollout]] = field(
        default_factory=dict[int, tuple[int, Rollout | FailedRollout]]
    )

    def complete(self) -> Group:
        by_index = [self.members[index] for index in sorted(self.members)]
        first = by_index[0][1]
        return Group(
            group_id=first.group_id,
            number=first.group,
            task_id=first.task_id,
            sequences=tuple(sorted(sequence for sequence, _ in by_index)),
            rollouts=tuple((s, message) for s, message in by_index if isinstance(message, Rollout)),
        )


class Groups:
    """The groups from their first rollout until a step uses them."""

    def __init__(
        self,
        config: LearnerConfig,
        *,
        step: int,
        consumed: int,
        replaced: int = 0,
        abandoned: Collection[int] = (),
        shape: Shape = own_rewards,
        stage: Stage = "loop",
    ) -> None:
        """Start without groups.

        Args:
            config: Size of a batch and the rules for joining it.
            step: The step to fill first, counted from 1.
            consumed: Number of groups trained on or discarded since the start of the run.
            replaced: Number of groups discarded for ``step`` because they are uninformative.
            abandoned: Policy versions that the guard has abandoned.
            shape: Returns the rewards to compare.
            stage: The stage of ``step``.
        """
        self.stage: Stage = stage
        """The stage of the step that is filled; set it before the next `judge`."""

        self._config = config
        self._step = step
        self._consumed = consumed
        self._replaced = replaced
        self._abandoned = set(abandoned)
        self._shape = shape
        self._gathering: dict[str, _Gathering] = {}
        self._complete: deque[Group] = deque()
        self._batch: list[Group] = []
        self._held: set[int] = set()
        self.failed_in_row = 0
        """Number of failed groups since the last one that did not fail."""

        self.last_failure = ""
        """The reason of the latest failed rollout."""

    @property
    def held(self) -> int:
        """Return the number of records that are in groups or in the batch."""
        return len(self._held)

    @property
    def consumed(self) -> int:
        """Return the number of groups trained on or discarded since the start of the run."""
        return self._consumed

    @property
    def filled(self) -> int:
        """Return the number of groups in the batch so far."""
        return len(self._batch)

    @property
    def full(self) -> bool:
        """Whether the batch has all its groups."""
        return len(self._batch) == self._config.groups_per_step

    def missing(self, group_size: int) -> int:
        """Return the minimum number of further records that can fill the batch."""
        incomplete = sorted(
            next(iter(gathering.members.values()))[1].group_size - len(gathering.members)
            for gathering in self._gathering.values()
        )
        wanted = self._config.groups_per_step - len(self._batch) - len(self._complete)
        nearest = incomplete[: max(0, wanted)]
        return sum(nearest) + group_size * max(0, wanted - len(nearest))

    def add(self, sequence: int, message: Rollout | FailedRollout) -> None:
        """Add one record, in the journal's order; a record already present changes nothing."""
        if sequence in self._held:
            return
        self._held.add(sequence)
        if isinstance(message, FailedRollout):
            self.last_failure = message.reason
        gathering = self._gathering.setdefault(message.group_id, _Gathering())
        gathering.members[message.index] = (sequence, message)
        if len(gathering.members) == message.group_size:
            self._complete.append(self._gathering.pop(message.group_id).complete())

    def judge(self) -> tuple[Discard, ...]:
        """Move complete groups into the batch until it is full; return the discarded groups."""
        discards: list[Discard] = []
        while self._complete and not self.full:
            group = self._complete.popleft()
            reason = self._fault(group)
            self.failed_in_row = self.failed_in_row + 1 if reason == "failed" else 0
            if reason is None:
                self._batch.append(group)
                continue
            self._consumed += 1
            self._replaced += reason == "zero_variance"
            self._held.difference_update(group.sequences)
            discards.append(self._discard(group, reason))
        return tuple(discards)

    def take_batch(self) -> tuple[Group, ...]:
        """Return the full batch and start the next step; the remaining groups are judged for it."""
        if not self.full:
            raise ValueError(
                f"a batch needs {self._config.groups_per_step} groups, it has {self.filled}"
            )
        batch = tuple(self._batch)
        self._batch.clear()
        for group in batch:
            self._held.difference_update(group.sequences)
        self._consumed += len(batch)
        self._step += 1
        self._replaced = 0
        return batch

    def abandon(self, versions: Iterable[int]) -> None:
        """Count a step without a batch; after it, ``versions`` are never trained on.

        Groups in the unfinished batch are judged again.
        """
        self._abandoned.update(versions)
        self._complete.extendleft(reversed(self._batch))
        self._batch.clear()
        self._step += 1
        self._replaced = 0

    def _fault(self, group: Group) -> Reason | None:
        if len(group.rollouts) < COMPARABLE:
            return "failed"
        if not self._abandoned.isdisjoint(group.versions):
            return "abandoned"
        if group.oldest_version < self._step - 1 - self._config.max_staleness:
            return "stale"
        most = self._config.refill_batches * self._config.groups_per_step
        use = use_of(group, self._config, self._shape, self.stage)
        if self._replaced < most and use == "nothing":
            return "zero_variance"
        return None

    def _discard(self, group: Group, reason: Reason) -> Discard:
        return Discard(
            sequences=group.sequences,
            message=GroupDiscarded(
                group_id=group.group_id,
                group=group.number,
                task_id=group.task_id,
                reason=reason,
                successes=group.successes,
                rollouts=len(group.rollouts),
                groups_consumed=self._consumed,
            ),
        )

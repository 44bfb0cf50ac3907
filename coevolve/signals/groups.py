"""Gathers rollouts into groups, as a fold over the journal, and sums them up.

A group is complete when every member arrived, failed ones included. Failed rollouts are counted and
say nothing else: neither success nor tokens nor patterns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from protocols.evolution import GroupSummary, PatternCount
from protocols.rollouts import FailedRollout, Rollout, Tokens
from protocols.tasks import NOTHING

NO_VERSION = -1
"""Of a group in which every rollout failed."""


Member = tuple[int, Rollout | FailedRollout]
"""A record of a group, behind its sequence in the journal."""


@dataclass(frozen=True, kw_only=True)
class CompleteGroup:
    """A group whose members all arrived."""

    members: tuple[Member, ...]
    """By index, at least one."""

    @property
    def sequences(self) -> tuple[int, ...]:
        """Every record of the group, failed ones included: what is acknowledged with it."""
        return tuple(sorted(sequence for sequence, _ in self.members))


class OpenGroups:
    """The groups of which some members are still under way."""

    def __init__(self) -> None:
        self._gathering: dict[str, dict[int, Member]] = {}

    def add(self, sequence: int, message: Rollout | FailedRollout) -> CompleteGroup | None:
        """Take in one record; return its group if this made it complete.

        A record that is here already changes nothing.
        """
        members = self._gathering.setdefault(message.group_id, {})
        members[message.index] = (sequence, message)
        if len(members) < message.group_size:
            return None
        by_index = sorted(self._gathering.pop(message.group_id).items())
        return CompleteGroup(members=tuple(member for _, member in by_index))

    def missing(self, groups: int, group_size: int) -> int:
        """Return the fewest further records, 1 or more, with which ``groups`` can be complete."""
        open_groups = sorted(
            next(iter(members.values()))[1].group_size - len(members)
            for members in self._gathering.values()
        )[:groups]
        return sum(open_groups) + group_size * (groups - len(open_groups))


def summary_of(
    members: Sequence[Member],
    *,
    root: str,
    calls: int,
    patterns: tuple[PatternCount, ...] = (),
    details: msgspec.Raw = NOTHING,
) -> GroupSummary:
    """Sum up a whole group, given by index.

    ``root`` is the task that the work began with; ``calls``, ``patterns`` and ``details`` are the
    environment's. What a teacher wrote is no surprise to the policy, and no token of its own.
    """
    first = members[0][1]
    played = [(sequence, each) for sequence, each in members if isinstance(each, Rollout)]
    rollouts = [rollout for _, rollout in played]
    sampled = [sampled_surprise(each.tokens) for each in rollouts if each.author != "teacher"]
    sampled_tokens = sum(count for _, count in sampled)
    return GroupSummary(
        group_id=first.group_id,
        group=first.group,
        task_id=first.task_id,
        root=root,
        author=rollouts[0].author if rollouts else "policy",
        version_min=min((rollout.version_min for rollout in rollouts), default=NO_VERSION),
        version_max=max((rollout.version_max for rollout in rollouts), default=NO_VERSION),
        successes=sum(rollout.succeeded for rollout in rollouts),
        rollouts=len(rollouts),
        errors=len(members) - len(rollouts),
        surprise=sum(total for total, _ in sampled) / max(1, sampled_tokens),
        sampled_tokens=sampled_tokens,
        calls=calls,
        patterns=patterns,
        evidence=tuple(sequence for sequence, _ in played),
        details=details,
    )


def sampled_surprise(tokens: Tokens) -> tuple[float, int]:
    """Return (sum of negative logprobs, number) of the tokens that the policy wrote."""
    mask_T = np.frombuffer(tokens.mask, np.uint8) == 1
    logprobs_T = np.frombuffer(tokens.logprobs, np.float32)
    return -float(logprobs_T[mask_T].sum(dtype=np.float64)), int(mask_T.sum())

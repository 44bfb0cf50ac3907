"""Gathers rollouts into groups, as a fold over the journal, and sums up groups with tools.

A group is complete when every member arrived, void ones included. Void rollouts are counted and
say nothing else: neither success nor tokens nor patterns.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from coevolve.signals.patterns import patterns_of
from protocols.evolution import Visit
from protocols.rollouts import Rollout, Tokens, VoidRollout

NO_VERSION = -1
"""Of a visit in which every rollout is void."""


Member = tuple[int, Rollout | VoidRollout]
"""A record of a group, behind its sequence in the journal."""


@dataclass(frozen=True, kw_only=True)
class CompleteGroup:
    """A group whose members all arrived."""

    members: tuple[Member, ...]
    """By index, at least one."""

    @property
    def sequences(self) -> tuple[int, ...]:
        """Every record of the group, void ones included: what is acknowledged with it."""
        return tuple(sorted(sequence for sequence, _ in self.members))


class Visits:
    """The groups of which some members are still under way."""

    def __init__(self) -> None:
        self._gathering: dict[str, dict[int, Member]] = {}

    def add(self, sequence: int, message: Rollout | VoidRollout) -> CompleteGroup | None:
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


def visit_of(members: Sequence[Member], tools: Container[str]) -> Visit:
    """Sum up a whole group, given by index; ``tools`` are the names that count as tools."""
    first = members[0][1]
    played = [(sequence, each) for sequence, each in members if isinstance(each, Rollout)]
    rollouts = [rollout for _, rollout in played]
    sampled = [sampled_surprise(rollout.tokens) for rollout in rollouts]
    sampled_tokens = sum(count for _, count in sampled)
    return Visit(
        group_id=first.group_id,
        group=first.group,
        task_id=first.task_id,
        version_min=min((rollout.version_min for rollout in rollouts), default=NO_VERSION),
        version_max=max((rollout.version_max for rollout in rollouts), default=NO_VERSION),
        successes=sum(rollout.succeeded for rollout in rollouts),
        rollouts=len(rollouts),
        void=len(members) - len(rollouts),
        surprise=sum(total for total, _ in sampled) / max(1, sampled_tokens),
        sampled_tokens=sampled_tokens,
        calls=sum(len(rollout.actions) for rollout in rollouts),
        patterns=patterns_of((rollout.actions for rollout in rollouts), tools),
        evidence=tuple(sequence for sequence, _ in played),
    )


def sampled_surprise(tokens: Tokens) -> tuple[float, int]:
    """Return (sum of negative logprobs, number) of the tokens that the policy wrote."""
    mask_T = np.frombuffer(tokens.mask, np.uint8) == 1
    logprobs_T = np.frombuffer(tokens.logprobs, np.float32)
    return -float(logprobs_T[mask_T].sum(dtype=np.float64)), int(mask_T.sum())

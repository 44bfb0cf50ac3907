"""Collects rollouts into groups, as a fold over the journal, and sums them up.

A group is complete when every member has arrived, including failed ones. Failed rollouts are only
counted; they add no success, tokens or patterns.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from protocols.evolution import GroupSummary, GroupTraffic, PatternCount, SkillCount
from protocols.rollouts import FailedRollout, Rollout, Tokens
from protocols.tasks import NOTHING

NO_VERSION = -1
"""Version of a group in which every rollout failed."""


Member = tuple[int, Rollout | FailedRollout]
"""A record of a group, as (journal sequence, message)."""


@dataclass(frozen=True, kw_only=True)
class CompleteGroup:
    """A group with all members."""

    members: tuple[Member, ...]
    """Members by index; at least one."""

    @property
    def sequences(self) -> tuple[int, ...]:
        """Every record of the group, including failed ones; all are acknowledged together."""
        return tuple(sorted(sequence for sequence, _ in self.members))


class OpenGroups:
    """The groups with members still in progress."""

    def __init__(self) -> None:
        self._gathering: dict[str, dict[int, Member]] = {}

    def add(self, sequence: int, message: Rollout | FailedRollout) -> CompleteGroup | None:
        """Add one record; return its group if this completes it.

        A record already present changes nothing.
        """
        members = self._gathering.setdefault(message.group_id, {})
        members[message.index] = (sequence, message)
        if len(members) < message.group_size:
            return None
        by_index = sorted(self._gathering.pop(message.group_id).items())
        return CompleteGroup(members=tuple(member for _, member in by_index))

    def missing(self, groups: int, group_size: int) -> int:
        """Return the minimum number of further records (1 or more) that can complete ``groups``."""
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
    skills: tuple[SkillCount, ...] = (),
    details: msgspec.Raw = NOTHING,
) -> GroupSummary:
    """Return the summary of a complete group, given by index.

    ``root`` is the first task of the chain. The environment gives ``calls``, ``patterns``,
    ``skills`` and ``details``. A teacher's tokens count neither as surprise nor as sampled tokens.
    """
    first = members[0][1]
    played = [(sequence, each) for sequence, each in members if isinstance(each, Rollout)]
    rollouts = [rollout for _, rollout in played]
    sampled = [
        sampled_surprise(tokens)
        for each in rollouts
        if each.author != "teacher"
        for tokens in each.conversations
    ]
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
        retried=sum(each.tries > 1 for each in rollouts),
        surprise=sum(total for total, _ in sampled) / max(1, sampled_tokens),
        sampled_tokens=sampled_tokens,
        calls=calls,
        patterns=patterns,
        skills=skills,
        evidence=tuple(sequence for sequence, _ in played),
        details=details,
        traffic=_traffic(rollouts),
    )


def _traffic(rollouts: Sequence[Rollout]) -> GroupTraffic:
    found: dict[str, Counter[str]] = {}
    for each in rollouts:
        traffic = each.traffic
        for kind, counts in (
            ("branches", traffic.branches),
            ("notes", traffic.notes),
            ("refused", traffic.refused),
            ("ignored", traffic.ignored),
            ("retries", {"retries": traffic.retries} if traffic.retries else {}),
        ):
            found.setdefault(kind, Counter()).update(dict.fromkeys(counts, 1))
    return GroupTraffic(
        further=sum(len(each.further) for each in rollouts),
        broken_tokens=sum(each.traffic.broken_tokens for each in rollouts),
        rollouts={kind: dict(names) for kind, names in found.items() if names},
    )


def skill_counts(skills: Sequence[str], rollouts: Sequence[Rollout]) -> tuple[SkillCount, ...]:
    """Count how rollouts did at the skills of their task, one for each turn, in order.

    A rollout fails at the skill of the turn that it does not pass, and comes to none after it.
    """
    passed, attempts = Counter[str](), Counter[str]()
    for rollout in rollouts:
        for turn, skill in enumerate(skills[: rollout.turns_passed + 1]):
            attempts[skill] += 1
            passed[skill] += turn < rollout.turns_passed
    return tuple(
        SkillCount(skill=skill, passed=passed[skill], attempts=count)
        for skill, count in attempts.items()
    )


def sampled_surprise(tokens: Tokens) -> tuple[float, int]:
    """Return (sum of negative logprobs, number) of the policy's tokens."""
    mask_T = np.frombuffer(tokens.mask, np.uint8) == 1
    logprobs_T = np.frombuffer(tokens.logprobs, np.float32)
    return -float(logprobs_T[mask_T].sum(dtype=np.float64)), int(mask_T.sum())

"""Summaries and rollouts for tests of the signals."""

from collections.abc import Sequence

import msgspec

from coevolve.signals.history import History
from protocols import columns
from protocols.evolution import GroupSummary, PatternCount, PatternKind, SkillCount
from protocols.evolution_config import SignalsConfig
from protocols.rollouts import Action, FailedRollout, Rollout, Tokens

CONFIG = SignalsConfig()


def visit(
    successes: int,
    rollouts: int = 8,
    *,
    version: int = 0,
    version_max: int | None = None,
    task_id: str = "task",
    group: int = 0,
    surprise: float = 0.0,
    patterns: Sequence[tuple[PatternKind, str, int]] = (),
) -> GroupSummary:
    return GroupSummary(
        group_id=f"g{group}",
        group=group,
        task_id=task_id,
        root=task_id,
        version_min=version,
        version_max=version if version_max is None else version_max,
        successes=successes,
        rollouts=rollouts,
        errors=0,
        surprise=surprise,
        sampled_tokens=10,
        calls=1,
        patterns=tuple(PatternCount(kind=k, pattern=p, count=n) for k, p, n in patterns),
        evidence=(100 * group + 1, 100 * group + 2),
    )


def skill_visit(
    number: int, skill: str, passed: int, *, rollouts: int = 8, per_version: int = 8
) -> GroupSummary:
    """Return visit ``number``, of one skill; each policy version makes ``per_version`` visits."""
    summary = visit(passed, rollouts, version=number // per_version, task_id=skill, group=number)
    counts = (SkillCount(skill=skill, passed=passed, attempts=rollouts),)
    return msgspec.structs.replace(summary, skills=counts, evidence=(number,))


def history_of(
    visits: Sequence[GroupSummary], config: SignalsConfig = CONFIG, tools: Sequence[str] = ()
) -> History:
    history = History(config, tools, 1000)
    for each in visits:
        history.add(each)
    return history


def action(text: str, result: str = "None", *, turn: int = 0, failed: bool = False) -> Action:
    return Action(turn=turn, text=text, result=result, failed=failed)


def rollout(
    group: int,
    index: int,
    *,
    size: int = 4,
    passed: bool = True,
    version: int = 0,
    task_id: str = "task",
    actions: Sequence[Action] = (),
    logprobs: Sequence[float] = (0.0, -0.5, -1.5),
    mask: Sequence[int] = (0, 1, 1),
) -> Rollout:
    count = len(mask)
    return Rollout(
        group_id=f"g{group}",
        group=group,
        index=index,
        group_size=size,
        task_id=task_id,
        seed=index,
        tokens=Tokens(
            token_ids=columns.int32(range(count)),
            mask=columns.uint8(mask),
            logprobs=columns.float32(logprobs),
            versions=columns.int32([version if each else -1 for each in mask]),
        ),
        actions=tuple(actions),
        turns_passed=int(passed),
        turns_total=1,
        reward=float(passed),
        version_min=version,
        version_max=version,
        ended="finished" if passed else "wrong",
        wall_s=0.1,
    )


def failed(group: int, index: int, *, size: int = 4, task_id: str = "task") -> FailedRollout:
    return FailedRollout(
        group_id=f"g{group}",
        group=group,
        index=index,
        group_size=size,
        task_id=task_id,
        reason="the child died",
        tries=3,
    )

"""What each version of the policy adds to a week's journal, for `tests.bench.soak`."""

from collections.abc import Iterator

from protocols.journal import Message
from protocols.learning import (
    CanaryScores,
    Checkpoint,
    Evaluation,
    PolicyVersion,
    ScoreReport,
    ScoreRequest,
    TaskScore,
    WeightsVerified,
)
from tests.evolving import discarded

SCORED_EVERY = 100
GUARDED_EVERY = 20
CHECKPOINT_EVERY = 20
HELD_OUT = 50
"""Held-out tasks, each of which is scored by an engine."""

DISCARDED_FROM = 10**9
"""Numbers of discarded groups, which are those of no other."""


def version_records(version: int) -> Iterator[Message]:
    """Yield the version, an engine's proof of it, a discarded group, and its scores if any."""
    is_scored = version % SCORED_EVERY == 0
    is_guarded = version % GUARDED_EVERY == 0
    yield PolicyVersion(
        version=version,
        path=f"versions/v_{version}",
        format="lora",
        digest=f"{version:064}",
        size_bytes=1,
        kept=is_scored or is_guarded,
    )
    yield WeightsVerified(
        engine="rollout-0",
        version=version,
        digest=f"{version:064}",
        max_abs_difference=0.0,
        wall_s=0.1,
        pause_s=0.0,
        proven_ns=0,
    )
    yield discarded(DISCARDED_FROM + version)
    if version % CHECKPOINT_EVERY == 0:
        yield _checkpoint(version)
    scores = tuple(
        TaskScore(task_id=f"held-out-{number}", turns_passed=number % 2, turns_total=1)
        for number in range(HELD_OUT)
    )
    if is_scored:
        yield from (ScoreRequest(version=version, task_id=each.task_id) for each in scores)
        for each in scores:
            yield ScoreReport(version=version, task_id=each.task_id, score=each)
        yield Evaluation(version=version, scores=scores, errors=0, wall_s=1.0)
    if is_guarded:
        yield CanaryScores(version=version, scores=scores, errors=0)


def _checkpoint(step: int) -> Checkpoint:
    before = step - CHECKPOINT_EVERY
    return Checkpoint(
        step=step,
        path=f"checkpoints/step_{step}",
        digest="",
        size_bytes=1,
        kept=False,
        replaces=(before,) if before > 0 else (),
    )

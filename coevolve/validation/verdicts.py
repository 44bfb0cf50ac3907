"""The records that a candidate leads to: its verdict, and its task."""

from typing import NamedTuple

import msgspec

from coevolve.validation.wordings import Conflict
from protocols.evolution import (
    Admitted,
    Candidate,
    CandidateVerdict,
    Label,
    Opinion,
    Parked,
    Reading,
    Refused,
)
from protocols.tasks import Synthesized, Task


class Views(NamedTuple):
    """What models said of a candidate."""

    opinion: Opinion
    reading: Reading


def admission(task: Task, successes: int, rollouts: int) -> Admitted:
    """Return the outcome of a candidate whose probes, if any, had so many successes."""
    label: Label = "unprobed" if not rollouts else "not_yet"
    if successes:
        label = "mastered" if successes == rollouts else "learnable"
    return Admitted(
        task_id=task.task_id,
        label=label,
        probe_successes=successes,
        probe_rollouts=rollouts,
    )


def verdict(
    candidate: Candidate,
    version: int,
    simulator_calls: int,
    views: Views,
    outcome: Admitted | Parked | Refused,
) -> CandidateVerdict:
    return CandidateVerdict(
        candidate_id=candidate.candidate_id,
        signal_id=candidate.signal_id,
        synthesizer=candidate.synthesizer,
        outcome=outcome,
        policy_version=version,
        simulator_calls=simulator_calls,
        opinion=views.opinion,
        reading=views.reading,
    )


def task_of(candidate: Candidate, body: msgspec.Raw, skills: tuple[str, ...]) -> Task:
    return Task(
        task_id=f"task-{candidate.candidate_id}",
        split="train",
        origin=Synthesized(candidate_id=candidate.candidate_id, signal_id=candidate.signal_id),
        skills=skills,
        body=body,
    )


def doubted(reading: Reading, conflict: Conflict) -> Reading:
    """Return the reading of a candidate whose wording other made tasks use for other work."""
    return Reading(
        reader=reading.reader or "wordings",
        outcome="unread",
        found="; ".join(filter(None, (conflict.found, reading.found))),
        agreement=reading.agreement,
    )

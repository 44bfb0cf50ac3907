"""Checks that the journal of a finished run is consistent."""

import collections
from collections.abc import Sequence

from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    GroupSummary,
    Parked,
    Signal,
    SignalSettled,
)
from protocols.journal import Message
from protocols.learning import GroupDiscarded, StepReport
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Task


def check_books(messages: Sequence[Message], steps: int) -> None:
    """Check that every request has one answer, every group one consumer, every step one report."""
    requests = [(m.group_id, m.index) for m in messages if isinstance(m, RolloutRequest)]
    answers = collections.Counter(
        (m.group_id, m.index) for m in messages if isinstance(m, Rollout | FailedRollout)
    )
    reports = [m for m in messages if isinstance(m, StepReport)]
    discards = [m for m in messages if isinstance(m, GroupDiscarded)]
    trained = [group.group_id for report in reports for group in report.groups]
    assert len(set(requests)) == len(requests)
    assert answers == collections.Counter(requests)
    assert [report.step for report in reports] == list(range(1, steps + 1))
    consumed = collections.Counter(trained + [discard.group_id for discard in discards])
    assert consumed == collections.Counter({group: 1 for group, _ in requests})
    check_evolution(messages)


def check_evolution(messages: Sequence[Message]) -> None:
    """Check that groups are summarized, signals resolved and candidates judged at most once."""
    visits = [m.group_id for m in messages if isinstance(m, GroupSummary)]
    signals = [m.signal_id for m in messages if isinstance(m, Signal)]
    settled = [m.signal_id for m in messages if isinstance(m, SignalSettled)]
    candidates = [m.candidate_id for m in messages if isinstance(m, Candidate)]
    judged = [
        m.candidate_id
        for m in messages
        if isinstance(m, CandidateVerdict) and not isinstance(m.outcome, Parked)
    ]
    made = [m.task_id for m in messages if isinstance(m, Task)]
    for ids in (visits, signals, settled, candidates, judged, made):
        assert len(set(ids)) == len(ids)
    assert set(settled) <= set(signals)
    assert set(judged) <= set(candidates)

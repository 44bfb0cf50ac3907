"""What has to balance in the journal of a run that took its last step."""

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
    """Every request answered once, every group consumed once, every step taken once."""
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
    """Each group visited at most once, each signal settled and each candidate judged likewise."""
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

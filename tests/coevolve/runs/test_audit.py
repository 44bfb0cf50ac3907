from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from coevolve.runs.audit import Audit, Books
from protocols.control import RunFinished, RunResumed, RunStarted, StateSnapshot
from protocols.evolution import Candidate, ProbeReport, ProbeRequest
from protocols.journal import Message
from protocols.learning import GroupDiscarded, PolicyVersion
from protocols.rollouts import FailedRollout, RolloutRequest
from tests.evolving import BODY, admitted, candidate, settled, stepped, verdict

STARTED = RunStarted(run_id="1", config="{}")
REQUEST = RolloutRequest(
    group_id="g", group=0, index=0, group_size=1, task_id="t", seed=0, policy_version_at_least=0
)
ANSWER = FailedRollout(
    group_id="g", group=0, index=0, group_size=1, task_id="t", reason="broke", tries=3
)
DISCARD = GroupDiscarded(
    group_id="g",
    group=0,
    task_id="t",
    reason="failed",
    successes=0,
    rollouts=0,
    groups_consumed=1,
)
VERSION = PolicyVersion(
    version=0, path="versions/0", format="full", digest="d", size_bytes=1, kept=True
)
MILESTONE = replace(VERSION, is_milestone=True)
FINISHED = RunFinished(steps=0)
WHOLE = (STARTED, VERSION, REQUEST, ANSWER, DISCARD, FINISHED)


def audited(*messages: Message, gap: int = 0) -> Audit:
    books = Books()
    for sequence, message in enumerate(messages, start=1 + gap):
        books.enter(sequence, message)
    return books.close()


def test_the_books_of_a_whole_run_have_no_fault():
    audit = audited(*WHOLE)
    assert not audit.faults
    assert (audit.requests, audit.open_requests, audit.starts) == (1, 0, 1)


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ((*WHOLE, ANSWER), "rollout: 1 recorded more than once: ('g', 0)"),
        ((*WHOLE, replace(ANSWER, index=1)), "rollout: 1 without a rollout request: ('g', 1)"),
        ((*WHOLE, DISCARD), "group trained on or discarded: 1 recorded more than once: g"),
        ((*WHOLE, VERSION), "policy versions: need to increase and are 0, 0"),
        (
            (*WHOLE, MILESTONE, MILESTONE),
            "policy version: 1 recorded more than once: (0, True)",
        ),
        ((STARTED, REQUEST, DISCARD, FINISHED), "rollout request: 1 without an answer: ('g', 0)"),
        ((STARTED, REQUEST, ANSWER, FINISHED), "group: 1 neither trained on nor discarded: g"),
    ],
)
def test_a_broken_promise_is_named(messages: Sequence[Message], fault: str):
    assert fault in audited(*messages).faults


def test_a_stop_may_make_the_newest_version_a_milestone_once():
    assert not audited(*WHOLE, MILESTONE).faults
    assert audited(*WHOLE, replace(VERSION, version=1), MILESTONE).faults


def test_what_a_resumed_run_has_not_answered_yet_is_open_and_no_fault():
    audit = audited(STARTED, FINISHED, RunResumed(run_id="1", config="{}"), REQUEST)
    assert not audit.faults
    assert audit.open_requests == 1
    assert not audit.finished


def test_an_answer_that_retention_deleted_is_not_missed():
    assert not audited(REQUEST, DISCARD, FINISHED, gap=1).faults


def test_a_snapshot_that_newer_ones_replaced_does_not_count_as_deleted():
    kept = [
        StateSnapshot(part="p", number=number, through=1, form="", states=()) for number in (3, 4)
    ]
    assert audited(REQUEST, DISCARD, FINISHED, *kept, gap=2).faults
    assert audited(STARTED, *kept, gap=2).deleted == 0


def group(number: int) -> tuple[RolloutRequest, FailedRollout, GroupDiscarded]:
    """Return a group of one rollout."""
    name = f"g{number}"
    return (
        replace(REQUEST, group_id=name, group=number),
        replace(ANSWER, group_id=name, group=number),
        replace(DISCARD, group_id=name, group=number),
    )


def test_a_request_that_retention_deleted_before_its_answer_is_not_missed():
    (_, answer, discard), later = group(0), group(1)
    assert not audited(STARTED, answer, discard, *later, FINISHED, gap=1).faults
    found = audited(STARTED, answer, discard, *later, FINISHED).faults
    assert found == ("rollout: 1 without a rollout request: ('g0', 0)",)


def probed(number: int) -> tuple[Candidate, ProbeRequest, ProbeReport]:
    """Return a candidate with its probe."""
    made, name = f"c{number}", f"c{number}/probe-0"
    request = ProbeRequest(
        probe_id=name, candidate_id=made, body=BODY, rollouts=1, seed=0, policy_version_at_least=0
    )
    report = ProbeReport(
        probe_id=name,
        candidate_id=made,
        successes=1,
        rollouts=1,
        errors=0,
        policy_version=0,
        sampled_tokens=1,
        calls=1,
    )
    return candidate(made, f"s{number}"), request, report


def test_a_probe_whose_request_retention_deleted_is_no_fault():
    (first, _, report), later = probed(0), probed(1)
    assert not audited(STARTED, first, report, *later, gap=1).faults
    assert not audited(STARTED, first, report, gap=1).faults
    found = audited(STARTED, first, report, *later).faults
    assert found == ("probe report: 1 without a probe request: c0/probe-0",)


def test_steps_begin_later_only_where_retention_deleted_the_first_ones():
    steps = [stepped(number) for number in (3, 4)]
    assert not audited(STARTED, *steps, gap=9).faults
    (fault,) = audited(STARTED, *steps).faults
    assert fault == "steps: need to be 1, 2, 3, ... and are 3, 4"
    (fault,) = audited(STARTED, *steps[::-1], gap=9).faults
    assert fault == "steps: need to be 4, 5, 6, ... and are 4, 3"


def test_a_verdict_whose_candidate_retention_deleted_is_no_fault():
    late = verdict("c0", "s0", admitted("m0")), settled("s0", 1)
    assert not audited(STARTED, *late, gap=9).faults
    assert len(audited(STARTED, *late).faults) == 2


def test_a_probe_without_a_request_is_found_although_retention_deleted_older_ones():
    earlier, (later, _, report) = probed(0), probed(1)
    found = audited(STARTED, *earlier, later, report, gap=9).faults
    assert found == ("probe report: 1 without a probe request: c1/probe-0",)


def test_what_is_missing_among_newer_records_is_found_although_retention_deleted_older_ones():
    first, (request, answer, discard), last = group(1), group(2), group(3)
    unasked = audited(STARTED, *first, answer, discard, *last, FINISHED, gap=9)
    assert unasked.faults == ("rollout: 1 without a rollout request: ('g2', 0)",)
    unanswered = audited(STARTED, *first, request, discard, *last, FINISHED, gap=9)
    assert unanswered.faults == ("rollout request: 1 without an answer: ('g2', 0)",)

"""Which of the waiting signals is next, and which ones go."""

from coevolve.parts.attempts import WorkItem
from coevolve.synthesis.backlog import Backlog, Waiting
from protocols.evolution import SignalKind
from tests.scripted import signal


def waiting(
    sequence: int,
    score: float,
    *,
    kind: SignalKind = "boundary",
    version: int = 0,
    failures: int = 0,
) -> Waiting:
    said = signal(f"s{sequence}", kind=kind, score=score, version=version)
    return Waiting(item=WorkItem(sequence, said), signal=said, failures=failures)


def backlog(*signals: Waiting) -> Backlog:
    found = Backlog()
    for each in signals:
        found.add(each)
    return found


def order(left: Backlog) -> list[int]:
    taken: list[int] = []
    while left:
        first = left.first()
        taken.append(left.take_next().sequence)
        assert first.sequence == taken[-1]
    return taken


def test_signals_that_failed_come_after_all_others_of_their_kind():
    left = backlog(
        waiting(1, 0.9, failures=2),
        waiting(2, 0.1),
        waiting(3, 0.8, failures=1),
        waiting(4, 0.1),
        waiting(5, 0.5),
    )
    assert order(left) == [5, 4, 2, 3, 1]


def test_of_too_many_those_of_the_oldest_versions_go_and_of_these_the_worst():
    left = backlog(
        waiting(1, 0.9, version=1),
        waiting(2, 0.1, version=2),
        waiting(3, 0.2, version=1, kind="rare"),
        waiting(4, 0.5, version=3),
        waiting(5, 0.3, version=1),
    )
    assert left.take_excess(5) == []
    assert [each.sequence for each in left.take_excess(3)] == [3, 5]
    assert [each.sequence for each in left.take_excess(2)] == [1]
    assert order(left) == [4, 2]


def test_a_signal_expires_after_so_many_versions():
    left = backlog(waiting(1, 0.9, version=1), waiting(2, 0.1, version=2, kind="rare"))
    assert [each.sequence for each in left.take_expired(21, 20)] == [1]
    assert order(left) == [2]

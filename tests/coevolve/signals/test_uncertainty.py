import pytest

from coevolve.signals.rules import Finding
from coevolve.signals.uncertainty import uncertainty
from tests.coevolve.signals.histories import CONFIG, history_of, visit


def found(tasks: int, successes: int, surprise: float) -> list[Finding]:
    others = [visit(4, task_id=f"t{n}", surprise=0.5 + n / 1000) for n in range(tasks - 1)]
    newest = visit(successes, surprise=surprise, group=1)
    return list(uncertainty(CONFIG, history_of([*others, newest]), newest))


def test_the_most_surprised_of_a_pool_is_uncertain():
    [finding] = found(41, 3, 2.0)
    # The median of 0.5 .. 0.539 and 2.0 is 0.52; one of 41 is so high.
    assert finding.score == pytest.approx(1 - 0.52 / 2.0)
    assert finding.rule == (
        "uncertainty: surprise 2 nats a token, median 0.52 of 41 tasks, p = 0.0244, 3/8 now"
    )


def test_it_needs_outcomes_that_differ_and_a_pool():
    assert not found(41, 0, 2.0)
    assert not found(41, 8, 2.0)
    assert not found(20, 3, 2.0)
    assert not found(41, 3, 0.5375)

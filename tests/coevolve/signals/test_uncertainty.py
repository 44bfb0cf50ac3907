import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.signals.rules import Finding
from coevolve.signals.uncertainty import uncertainty
from protocols.evolution_config import SignalsConfig
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


SURPRISES = st.lists(
    st.tuples(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), st.integers(0, 20)), min_size=1
)


@given(SURPRISES)
def test_the_rule_sees_the_newest_surprise_of_every_task(surprises: list[tuple[str, int]]):
    visits = [visit(3, task_id=task, surprise=surprise / 8) for task, surprise in surprises]
    newest = visits[-1]
    eager = SignalsConfig(confidence=0.5)
    values = np.array(list({each.task_id: each.surprise for each in visits}.values()))
    p_value = float(np.mean(values >= newest.surprise))
    expected = [pytest.approx(1 - np.median(values) / newest.surprise)] if p_value < 0.5 else []
    findings = list(uncertainty(eager, history_of(visits), newest))
    assert [each.score for each in findings] == expected
    assert all(f"of {len(values)} tasks, p = {p_value:.3g}," in each.rule for each in findings)

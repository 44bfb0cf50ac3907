from coevolve.llm.breaker import Breaker
from protocols.errors import EndpointError


def test_a_model_rests_after_three_failures_in_a_row_and_longer_after_each_further_one() -> None:
    now_s = 0.0
    breaker = Breaker(lambda: now_s)
    for _ in range(2):
        breaker.failed(EndpointError("no route"))
        assert not breaker.rests
    breaker.answered()
    for rest_s in (0, 0, 10, 20, 40, 80, 160, 320, 600, 600):
        breaker.failed(EndpointError("no route"))
        assert bool(breaker.rests) == bool(rest_s)
        now_s += rest_s - 0.5
        assert bool(breaker.rests) == bool(rest_s)
        now_s += 0.5
        assert not breaker.rests
    breaker.failed(EndpointError("no route"))
    assert breaker.rests == (
        "it failed 11 times in a row and is asked again in 600 s; last error: no route"
    )
    breaker.answered()
    now_s += 600
    breaker.failed(EndpointError("no route"))
    assert not breaker.rests


def test_an_answer_to_a_call_that_began_earlier_ends_the_rest() -> None:
    breaker = Breaker(lambda: 0.0)
    for _ in range(5):
        breaker.failed(EndpointError("no route"))
    assert breaker.rests
    breaker.answered()
    assert not breaker.rests

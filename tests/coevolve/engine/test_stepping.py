"""Tests of the engine's thread, with an engine that only counts."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from coevolve.engine.stepping import Settled, Stepper, Waiter
from protocols.errors import GeneratorError


class Counting:
    """Answers each request with its number after one step."""

    def __init__(self) -> None:
        self.begun: list[tuple[Waiter, int]] = []
        self.steps = 0
        self.stuck = threading.Event()
        self.stuck.set()
        self.fails = False

    @property
    def busy(self) -> bool:
        return bool(self.begun)

    def tick(self) -> list[Settled]:
        self.stuck.wait(30)
        if self.fails:
            raise ValueError("no step")
        self.steps += 1
        finished, self.begun = self.begun, []
        return list(finished)


@pytest.fixture
async def engine() -> Counting:
    return Counting()


@pytest.fixture
async def stepper(engine: Counting) -> AsyncIterator[Stepper]:
    stepper = Stepper(engine, step_timeout_s=0.4)
    yield stepper
    engine.stuck.set()
    await stepper.close("the test is over")


def asking(engine: Counting, number: int):
    def order(waiter: Waiter) -> bool:
        engine.begun.append((waiter, number))
        return True

    return order


async def test_every_caller_gets_its_own_answer(engine: Counting, stepper: Stepper):
    answers = await asyncio.gather(*(stepper.ask(asking(engine, n)) for n in range(20)))
    assert answers == list(range(20))


async def test_orders_are_carried_out_between_steps(engine: Counting, stepper: Stepper):
    seen: list[str] = []
    stepper.tell(lambda: seen.append(threading.current_thread().name))
    await stepper.ask(asking(engine, 1))
    assert seen == ["engine"]


async def test_an_order_that_cannot_be_taken_up_yet_is_tried_after_the_next_step(
    engine: Counting, stepper: Stepper
):
    engine.stuck.clear()
    first = asyncio.create_task(stepper.ask(asking(engine, 1)))
    tried: list[int] = []

    def later(waiter: Waiter) -> bool:
        tried.append(engine.steps)
        if engine.steps == 0:
            return False
        stepper.settle([(waiter, "done")])
        return True

    second = asyncio.create_task(stepper.ask(later))
    await asyncio.sleep(0.05)
    engine.stuck.set()
    assert await asyncio.gather(first, second) == [1, "done"]
    assert tried[-1] == 1


async def test_an_order_that_is_refused_concerns_nobody_else(engine: Counting, stepper: Stepper):
    def refused(_: Waiter) -> bool:
        raise GeneratorError("not this one")

    with pytest.raises(GeneratorError, match="not this one"):
        await stepper.ask(refused)
    assert await stepper.ask(asking(engine, 2)) == 2


async def test_a_failed_step_reaches_every_caller(
    engine: Counting, stepper: Stepper, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    engine.stuck.clear()
    asked = [asyncio.create_task(stepper.ask(asking(engine, number))) for number in range(3)]
    await asyncio.sleep(0.05)
    engine.fails = True
    engine.stuck.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    later = asyncio.create_task(stepper.ask(asking(engine, 3)))
    answers += await asyncio.gather(later, return_exceptions=True)
    for answer in answers:
        assert isinstance(answer, GeneratorError)
        assert "the rollout engine failed: ValueError: no step" in str(answer)


async def test_a_step_that_does_not_end_is_noticed_in_time(engine: Counting, stepper: Stepper):
    engine.stuck.clear()
    began = time.monotonic()
    with pytest.raises(GeneratorError, match=r"hangs: a step has taken more than 0\.4 s"):
        await stepper.ask(asking(engine, 1))
    assert time.monotonic() - began < 5
    with pytest.raises(GeneratorError, match="hangs"):
        await stepper.ask(asking(engine, 2))


async def test_an_idle_engine_is_not_stuck(engine: Counting, stepper: Stepper):
    await stepper.ask(asking(engine, 1))
    await asyncio.sleep(0.9)
    assert await stepper.ask(asking(engine, 2)) == 2


async def test_closing_gives_every_caller_the_reason_and_leaves_no_thread(engine: Counting):
    stepper = Stepper(engine, step_timeout_s=60.0)
    before = threading.active_count()
    engine.stuck.clear()
    waiting = asyncio.create_task(stepper.ask(asking(engine, 1)))
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(stepper.close("closed"))
    with pytest.raises(GeneratorError, match="closed"):
        await waiting
    engine.stuck.set()
    await closing
    assert threading.active_count() <= before

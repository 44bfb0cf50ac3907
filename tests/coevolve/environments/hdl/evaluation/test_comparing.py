"""Whole comparisons, with writers and simulators that execute nothing."""

import asyncio
from dataclasses import dataclass

import msgspec
import pytest

from coevolve.environments.hdl.evaluation.attempts import AGENTIC, DIRECT, FIRST, Budget, Writer
from coevolve.environments.hdl.evaluation.comparing import Comparison
from coevolve.environments.hdl.evaluation.evaluate import BoundedSimulator
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    Evaluated,
    SimulationLimits,
    Testbench,
)
from protocols.errors import SimulatorError
from tests.coevolve.environments.hdl.policy.test_steps import TASK
from tests.hdl_points import unit
from tests.hdl_simulators import ScriptedSimulator
from tests.hdl_transitions import FAILED, covered
from tests.small_designs import counter

SEED = 0
"""Seed of the evaluation for which the design's own first seed is even."""

MET, MISSED = covered((9, 10)), covered((8, 10))


class BySeed:
    """Reaches the threshold with even seeds, runs with odd ones, fails in a refinement."""

    async def write(self, task: CoverageTask, session: str, seed: int) -> Graded | None:
        await asyncio.sleep(0)
        if task.round:
            return FAILED
        return MISSED if seed % 2 else MET


class Breaking:
    """Raises an infrastructure failure, while all other calls wait for ever."""

    async def write(self, task: CoverageTask, session: str, seed: int) -> Graded | None:
        if task.design == "broken":
            raise SimulatorError("the machine is on fire")
        await asyncio.Event().wait()
        return None


def comparison(writer: Writer, told: list[str]) -> Comparison:
    return Comparison(
        writer=writer,
        simulator=ScriptedSimulator(),
        judge=None,
        budget=Budget(calls=2, attempts=3, seed=SEED, keeps_best=True),
        limits=SimulationLimits(),
        trial=None,
        concurrent=2,
        with_baselines=False,
        tell=told.append,
    )


async def test_each_kind_is_scored_over_all_attempts_by_the_best_testbench():
    told: list[str] = []
    (found,) = await comparison(BySeed(), told).run([(counter(threshold=0.9), TASK)])
    # Attempts 0, 1 and 2 start with even, odd and even seeds; their second draws are the opposite.
    agentic, direct, first = (found.scores[way] for way in (AGENTIC, DIRECT, FIRST))
    assert (agentic.cov_pass, first.cov_pass) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert direct.cov_pass == 1
    assert first.coverage == pytest.approx((0.9 + 0.8 + 0.9) / 3)
    assert (agentic.attempts, agentic.calls, first.calls) == (3, 2, 1)
    assert agentic.bugs is None
    assert told == ["1 of 1 designs: counter"]


async def test_an_infrastructure_failure_aborts_the_evaluation():
    designs = [
        (counter(name), msgspec.structs.replace(TASK, design=name)) for name in ("broken", "b")
    ]
    with pytest.raises(SimulatorError, match="on fire"):
        await asyncio.wait_for(comparison(Breaking(), []).run(designs), 5)


@dataclass
class Counting(ScriptedSimulator):
    """Records the maximum of concurrent evaluations."""

    running: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    async def evaluate(self, request: Evaluate) -> Evaluated:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await super().evaluate(request)
        finally:
            self.running -= 1


async def test_concurrent_evaluations_are_limited():
    behind = Counting()
    simulator = BoundedSimulator(behind, most=3, tries=1)
    request = Evaluate(unit=unit(), submission=Testbench(text="module tb;"))
    answers = await asyncio.gather(*(simulator.evaluate(request) for _ in range(9)))
    assert (len(answers), behind.most) == (9, 3)


@dataclass
class Failing(ScriptedSimulator):
    """Fails a number of times before it answers."""

    failures: int

    def __post_init__(self) -> None:
        super().__init__()

    async def evaluate(self, request: Evaluate) -> Evaluated:
        if self.failures:
            self.failures -= 1
            raise SimulatorError("on fire")
        return await super().evaluate(request)


async def test_infrastructure_failures_are_retried_up_to_the_limit():
    request = Evaluate(unit=unit(), submission=Testbench(text="module tb;"))
    assert await BoundedSimulator(Failing(2), most=1, tries=3).evaluate(request)
    with pytest.raises(SimulatorError, match="on fire"):
        await BoundedSimulator(Failing(3), most=1, tries=3).evaluate(request)

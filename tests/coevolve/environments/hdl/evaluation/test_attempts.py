"""Budgets of attempts, with scripted writers and baselines."""

from dataclasses import dataclass, field

import pytest

from coevolve.environments.hdl.evaluation.attempts import (
    AGENTIC,
    DIRECT,
    FIRST,
    LONG,
    RANDOM,
    STRUCTURAL,
    Attempt,
    Budget,
    baselines,
    played,
)
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Blank, Graded
from tests.coevolve.environments.hdl.policy.test_steps import TASK
from tests.hdl_transitions import FAILED, covered
from tests.small_designs import counter

LOW, MID, FULL = (covered((n, 100), testbench=f"tb {n}") for n in (10, 50, 100))


@dataclass
class Dictated:
    """Returns given testbenches in order, and records the requests."""

    states: list[Graded | None]
    tasks: list[CoverageTask] = field(default_factory=list[CoverageTask])
    sessions: list[str] = field(default_factory=list[str])
    seeds: list[int] = field(default_factory=list[int])

    async def write(self, task: CoverageTask, session: str, seed: int) -> Graded | None:
        self.tasks.append(task)
        self.sessions.append(session)
        self.seeds.append(seed)
        return self.states.pop(0)


def budget(calls: int, *, keeps_best: bool = True, seed: int = 0) -> Budget:
    return Budget(calls=calls, attempts=2, seed=seed, keeps_best=keeps_best)


async def test_both_kinds_of_attempts_share_budget_and_first_testbench():
    writer = Dictated([LOW, None, MID, FAILED, LOW])
    made = await played(writer, TASK, budget(3), 0)
    assert made[AGENTIC].written == (LOW, None, MID)
    assert made[DIRECT].written == (LOW, FAILED, LOW)
    assert made[FIRST].written == (LOW,)
    assert [task.state for task in writer.tasks] == [Blank(), LOW, LOW, Blank(), Blank()]
    assert (made[AGENTIC].calls, made[AGENTIC].best) == (2, MID)
    assert len(set(writer.sessions)) == 5


async def test_a_chain_that_covers_everything_ends_early():
    made = await played(Dictated([LOW, FULL, LOW, LOW, LOW]), TASK, budget(4), 0)
    assert (made[AGENTIC].calls, made[AGENTIC].best) == (2, FULL)
    assert made[DIRECT].calls == 4


async def test_with_memory_last_a_chain_continues_from_the_last_but_the_best_counts():
    writer = Dictated([MID, LOW, LOW, LOW, LOW])
    made = await played(writer, TASK, budget(3, keeps_best=False), 0)
    assert [task.state for task in writer.tasks[:3]] == [Blank(), MID, LOW]
    assert made[AGENTIC].best == MID


async def test_attempts_differ_in_their_seeds_and_repeat_by_the_seed():
    async def seeds(number: int, seed: int) -> list[int]:
        writer = Dictated([LOW] * 3)
        await played(writer, TASK, budget(2, seed=seed), number)
        return writer.seeds

    found = [await seeds(number, seed) for number in (0, 1) for seed in (0, 1)]
    assert len({each for row in found for each in row[:2]}) == 8
    assert found[0] == await seeds(0, 0)


def test_an_attempt_without_testbenches_has_no_calls_and_no_best():
    attempt = Attempt(written=(None, None))
    assert (attempt.calls, attempt.best) == (0, None)


@pytest.mark.parametrize("calls", [1, 6])
def test_baselines_have_the_same_number_of_calls(calls: int):
    design = counter()
    first, second = (baselines(design, budget(calls), number) for number in (0, 1))
    assert tuple(first) == (LONG, RANDOM, STRUCTURAL)
    assert tuple(second) == (LONG, RANDOM)
    assert [len(first[name]) for name in (LONG, RANDOM)] == [calls, calls]
    assert 1 <= len(first[STRUCTURAL]) <= calls
    for name in (LONG, RANDOM):
        programs = {each.program for each in (*first[name], *second[name])}
        assert len(programs) == 2 * calls
    assert baselines(design, budget(calls), 1) == second

"""Attempts at designs, each within a budget of simulator calls.

With a budget of B calls, a writer of testbenches makes three kinds of attempts:

- *agentic*: a chain of up to B steps, until all points are covered. Each step starts from the best
  testbench so far or from the last one (``environment.memory``). The best testbench counts.
- *direct*: B first testbenches, written independently of one another; the best counts. This is
  best-of-N at the same budget.
- *direct, 1 call*: only the first of these, as in LLM4Cov (arXiv 2602.16953), whose agentic
  attempts have more calls than its direct ones.

A baseline (`hdl.evaluation.baselines`) tries its next B programs. Of equally good testbenches the
last one is the best.

A step with an unreadable answer is spent without a call of the simulator; LLM4Cov's released loop
retries up to three times. The agentic and the direct attempt with the same number share their first
testbench, which is written once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.evaluation.baselines.structural import structural_programs
from coevolve.environments.hdl.evaluation.baselines.target import target_of
from coevolve.environments.hdl.evaluation.baselines.uniform import long_runs, random_programs
from coevolve.environments.hdl.policy.chains import TakeStep, best, chained
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import COVERAGE_ALONE, SimulationLimits, Stimulus
from coevolve.environments.hdl.simulate.reward import RewardConfig
from coevolve.environments.hdl.stimulus.language import format as printed
from coevolve.environments.sdk import sampling_seed

AGENTIC, DIRECT, FIRST = "agentic", "direct", "direct, 1 call"
LONG, RANDOM, STRUCTURAL = "long random runs", "random programs", "structural"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits and settings of attempts."""

    calls: int
    """B: maximum simulator calls of one attempt."""

    attempts: int
    """n: number of attempts at each design."""

    seed: int
    keeps_best: bool
    """Whether a step of a chain starts from the best testbench so far, or from the last one."""

    weights: RewardConfig = COVERAGE_ALONE
    """What makes a testbench the best."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The testbenches of one attempt."""

    written: tuple[Graded | None, ...]
    """Graded testbench of each step; None for an unreadable answer."""

    weights: RewardConfig = COVERAGE_ALONE

    @property
    def calls(self) -> int:
        """Number of simulator calls."""
        return len(self.written) - self.written.count(None)

    @property
    def best(self) -> Graded | None:
        """The best testbench, which counts; None if there is none."""
        graded = [state for state in self.written if state is not None]
        return best(graded, self.weights) if graded else None


class Writer(Protocol):
    """A policy or a model that writes testbenches."""

    async def write(self, task: CoverageTask, session: str, seed: int) -> Graded | None:
        """Take one step; return the graded testbench, or None for an unreadable answer.

        ``session`` is unique to the step. Raises SimulatorError, GeneratorError or EndpointError on
        an infrastructure failure.
        """
        ...


async def played(
    writer: Writer, task: CoverageTask, budget: Budget, number: int
) -> Mapping[str, Attempt]:
    """Return ``writer``'s attempt with this number at a design, of each kind."""
    seed = sampling_seed(design_seed(task.design, budget), number)

    def taking(way: str) -> TakeStep:
        return lambda step, index: writer.write(
            step, f"{task.design}/{number}/{way}/{index}", sampling_seed(seed, index)
        )

    take = taking(AGENTIC)
    agentic = await chained(
        take,
        task,
        steps=budget.calls,
        keeps_best=budget.keeps_best,
        weights=budget.weights,
    )
    draw = taking(DIRECT)
    direct = [agentic[0], *[await draw(task, index) for index in range(1, budget.calls)]]
    return {
        AGENTIC: Attempt(written=tuple(agentic), weights=budget.weights),
        DIRECT: Attempt(written=tuple(direct), weights=budget.weights),
        FIRST: Attempt(written=tuple(direct[:1])),
    }


def baselines(design: Design, budget: Budget, number: int) -> Mapping[str, Sequence[Stimulus]]:
    """Return the programs of each baseline's attempt with this number.

    Long runs continue where the attempt before ended. The structural generator is deterministic and
    makes one attempt.
    """
    target = target_of(design)
    rng = np.random.default_rng((design_seed(design.design_id, budget), number))
    first = number * budget.calls
    found = {
        LONG: islice(long_runs(target), first, first + budget.calls),
        RANDOM: islice(random_programs(target, rng), budget.calls),
    }
    if number == 0:
        found[STRUCTURAL] = islice(structural_programs(target), budget.calls)
    return {
        name: [Stimulus(program=printed(program)) for program in programs]
        for name, programs in found.items()
    }


def design_seed(design_id: str, budget: Budget) -> int:
    """Return a seed for the design, so that sampling on different designs is independent.

    It is small, because the result of `sampling_seed` has to fit into 63 bits.
    """
    text = f"{budget.seed} {design_id}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:2])


async def tried(
    simulator: TestbenchSimulator,
    design: Design,
    programs: Sequence[Stimulus],
    limits: SimulationLimits,
    weights: RewardConfig = COVERAGE_ALONE,
) -> Attempt:
    """Return the attempt that runs these programs."""
    states: list[Graded] = []
    for program in programs:
        evaluated = await simulator.evaluate(grading(design, program, limits, trial=weights.tries))
        states.append(graded(program, evaluated))
    return Attempt(written=tuple(states), weights=weights)

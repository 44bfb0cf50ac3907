"""Attempts at designs, each within a budget of simulator calls.

With a budget of B calls an attempt is, of a player that writes testbenches,

- *agentic*: a chain of up to B steps, each from the best testbench so far or the last one, as
  ``hdl.memory`` says, until coverage is whole; the best testbench counts;
- *direct*: B first testbenches, written independently of one another; the best counts. This is
  best-of-N at the same budget;
- *direct, 1 call*: the first of these alone, as LLM4Cov (arXiv 2602.16953) reports it, whose
  agentic attempts have more calls than its direct ones.

A baseline (`hdl.evaluation.baselines`) tries its next B programs. Of equals the later is the best.

A step that writes nothing readable is spent, though no simulator is called; LLM4Cov's released loop
asks again up to three times. The agentic and the direct attempt of one number begin with the same
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
from coevolve.environments.hdl.simulate.messages import SimulationLimits, Stimulus
from coevolve.environments.hdl.stimulus.language import format as printed
from coevolve.rollouts.agent import sampling_seed

AGENTIC, DIRECT, FIRST = "agentic", "direct", "direct, 1 call"
LONG, RANDOM, STRUCTURAL = "long random runs", "random programs", "structural"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What attempts may take."""

    calls: int
    """B, of the simulator, each attempt."""

    attempts: int
    """n, at each design."""

    seed: int
    keeps_best: bool
    """Whether a chain goes on from the best testbench so far, or from the last."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What became of an attempt."""

    written: tuple[Graded | None, ...]
    """Step by step; None where nothing readable was written."""

    @property
    def calls(self) -> int:
        """Calls of the simulator."""
        return len(self.written) - self.written.count(None)

    @property
    def best(self) -> Graded | None:
        """The testbench that counts."""
        graded = [state for state in self.written if state is not None]
        return best(graded) if graded else None


class Writer(Protocol):
    """Whoever writes testbenches."""

    async def write(self, task: CoverageTask, session: str, seed: int) -> Graded | None:
        """Take one step; return the testbench with its grade, None where nothing readable came.

        ``session`` is unique to the step. Raises SimulatorError, GeneratorError or EndpointError
        where a machine failed.
        """
        ...


async def played(
    writer: Writer, task: CoverageTask, budget: Budget, number: int
) -> Mapping[str, Attempt]:
    """Have ``writer`` make one attempt at a design in each way, the attempts' ``number``-th."""
    seed = sampling_seed(_seed(task.design, budget), number)

    def taking(way: str) -> TakeStep:
        return lambda step, index: writer.write(
            step, f"{task.design}/{number}/{way}/{index}", sampling_seed(seed, index)
        )

    take = taking(AGENTIC)
    agentic = await chained(take, task, steps=budget.calls, keeps_best=budget.keeps_best)
    draw = taking(DIRECT)
    direct = [agentic[0], *[await draw(task, index) for index in range(1, budget.calls)]]
    return {
        AGENTIC: Attempt(written=tuple(agentic)),
        DIRECT: Attempt(written=tuple(direct)),
        FIRST: Attempt(written=tuple(direct[:1])),
    }


def baselines(design: Design, budget: Budget, number: int) -> Mapping[str, Sequence[Stimulus]]:
    """Return the programs of each baseline's ``number``-th attempt.

    Long runs go on where the attempt before ended. The structural generator has no chance in it and
    makes one attempt.
    """
    target = target_of(design)
    rng = np.random.default_rng((_seed(design.design_id, budget), number))
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


def _seed(design_id: str, budget: Budget) -> int:
    """Return a seed of the design's own: chance on one says nothing of chance on another.

    It is small, since what `sampling_seed` makes of it has to fit 63 bits.
    """
    said = f"{budget.seed} {design_id}".encode()
    return int.from_bytes(hashlib.sha256(said).digest()[:2])


async def tried(
    simulator: TestbenchSimulator,
    design: Design,
    programs: Sequence[Stimulus],
    limits: SimulationLimits,
) -> Attempt:
    """Return the attempt that tries these programs."""
    states: list[Graded] = []
    for program in programs:
        evaluated = await simulator.evaluate(grading(design, program, limits))
        states.append(graded(program, evaluated))
    return Attempt(written=tuple(states))

"""Lets the writer and the baselines attempt every design, and scores the attempts.

All kinds of attempts at a design use the same simulator, seed, limits and mutants. An
infrastructure failure aborts the evaluation and is never scored.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from coevolve.environments.hdl.curation.states import average, meets
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.evaluation.attempts import (
    Attempt,
    Budget,
    Writer,
    baselines,
    played,
    tried,
)
from coevolve.environments.hdl.evaluation.bugs import BugJudge, share
from coevolve.environments.hdl.evaluation.measures import Attempted, Score, score
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import coverage_of
from coevolve.environments.hdl.simulate.grading import grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Covered,
    SimulationLimits,
    Stimulus,
    Testbench,
)
from coevolve.environments.hdl.simulate.reward import MutantTrial
from protocols.tasks import Split

T = TypeVar("T")

Tell = Callable[[str], None]


class DesignScores(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of all kinds of attempts at one design."""

    design: str
    split: Split
    threshold: float
    mutants: int
    scores: dict[str, Score]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The parts and settings of an evaluation."""

    writer: Writer
    simulator: TestbenchSimulator
    judge: BugJudge | None
    """None to leave bugs out."""

    budget: Budget
    limits: SimulationLimits
    trial: MutantTrial | None
    """The trial on made mutants of the testbenches that count; None to leave it out."""

    concurrent: int
    """Maximum attempts at the same time."""

    with_baselines: bool
    tell: Tell
    """Reports progress."""

    async def run(self, designs: Sequence[tuple[Design, CoverageTask]]) -> tuple[DesignScores, ...]:
        """Return the scores on each design; its task is to write a first testbench.

        Raises SimulatorError, GeneratorError and EndpointError on an infrastructure failure.
        """
        gate = asyncio.Semaphore(self.concurrent)
        done = 0

        async def on(design: Design, task: CoverageTask) -> DesignScores:
            nonlocal done
            found = await self._on(design, task, gate)
            done += 1
            self.tell(f"{done} of {len(designs)} designs: {design.design_id}")
            return found

        return tuple(await together(on(design, task) for design, task in designs))

    async def _on(
        self, design: Design, task: CoverageTask, gate: asyncio.Semaphore
    ) -> DesignScores:
        async def attempt(number: int) -> Mapping[str, Attempt]:
            async with gate:
                made = dict(await played(self.writer, task, self.budget, number))
                if self.with_baselines:
                    for name, programs in baselines(design, self.budget, number).items():
                        made[name] = await tried(
                            self.simulator, design, programs, self.limits, self.budget.weights
                        )
                return made

        numbered = await together(map(attempt, range(self.budget.attempts)))
        ways = numbered[0]
        attempts = {way: [made[way] for made in numbered if way in made] for way in ways}
        every = [each for made in attempts.values() for each in made]
        bugs = await self._bugs(design, every)
        mutation = await self._mutation(design, task, every)
        return DesignScores(
            design=design.design_id,
            split=design.file.split,
            threshold=design.file.threshold,
            mutants=len(design.mutants),
            scores={
                way: score([_measure(each, design, bugs, mutation) for each in made])
                for way, made in attempts.items()
            },
        )

    async def _bugs(
        self, design: Design, attempts: Sequence[Attempt]
    ) -> Mapping[str, float] | None:
        if self.judge is None or not design.mutants:
            return None
        states = [each.best for each in attempts]
        judged = await self.judge.judge(design, [each for each in states if each is not None])
        return {text: share(bugs) for text, bugs in judged.items()}

    async def _mutation(
        self, design: Design, task: CoverageTask, attempts: Sequence[Attempt]
    ) -> Mapping[str, float] | None:
        """Return the mutation score of each testbench that counts, by its text."""
        if self.trial is None:
            return None
        states = {each.best.testbench: each.best for each in attempts if each.best is not None}
        found: dict[str, float] = {}
        for text, state in states.items():
            submission = Stimulus(program=state.program) if state.program else Testbench(text=text)
            evaluated = await self.simulator.evaluate(
                grading(design, submission, self.limits, instance=task.instance, trial=self.trial)
            )
            outcome = evaluated.outcome
            noticed = outcome.mutants if isinstance(outcome, Covered) else None
            found[text] = noticed.score if noticed else 0.0
        return found


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results; the first failure cancels the rest and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


def _plan(design: Design, coverage: Coverage | None) -> float | None:
    """Return the covered share of the plan; None if the design has none."""
    if not design.unit.plan:
        return None
    return (coverage.share("plan") if coverage else None) or 0.0


def _measure(
    attempt: Attempt,
    design: Design,
    bugs: Mapping[str, float] | None,
    mutation: Mapping[str, float] | None,
) -> Attempted:
    """Return the measures of an attempt; a testbench that did not run kills no mutant."""
    state = attempt.best
    coverage = coverage_of(state) if state else None
    return Attempted(
        ran=coverage is not None,
        coverage=float(average(coverage)),
        passed=meets(coverage, design.file.threshold),
        steps=len(attempt.written),
        calls=attempt.calls,
        plan=_plan(design, coverage),
        bugs=None if bugs is None else bugs.get(state.testbench if state else "", 0.0),
        mutation=None if mutation is None else mutation.get(state.testbench if state else "", 0.0),
    )

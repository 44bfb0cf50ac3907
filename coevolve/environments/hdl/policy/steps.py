"""One step on a design: prompt, submission, simulation.

Steps are memoryless (LLM4Cov, arXiv 2602.16953): the prompt depends only on the task. The learner
trains on exactly the tokens that the engine sampled. The writer may be another model than the
policy (`StepWriter`); its answer is recorded in the policy's tokens.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coevolve.environments.hdl.curation.states import average, meets
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.chains import best, chained
from coevolve.environments.hdl.policy.interfaces import StepRenderer
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import (
    Graded,
    coverage_of,
    outcome_key,
    read_outcome,
)
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import (
    COVERAGE_ALONE,
    Covered,
    Point,
    SimulationLimits,
    reward_of,
)
from coevolve.environments.hdl.simulate.reward import RewardConfig
from coevolve.environments.sdk import Agent, Episode, Transcript, room_left
from protocols.config import RolloutConfig
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.learning import TaskScore
from protocols.rollouts import Ending
from protocols.tasks import NOTHING, Task, body_of


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step as its writer gets it."""

    task: CoverageTask
    design: Design
    points: Sequence[Point]
    prompt_ids: tuple[int, ...]
    """The prompt in the policy's tokens."""

    max_tokens: int
    """Maximum length of the answer."""


class StepWriter(Protocol):
    """The policy, or another model that writes testbenches."""

    async def write(self, step: Step, session: str, *, seed: int) -> Generation:
        """Return the answer in the policy's tokens; ``session`` names it in an engine's cache.

        Raises:
            GeneratorError: The engine failed.
            EndpointError: The teacher's endpoint does not answer.
            OverBudgetError: The teacher's budget is spent.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class PolicyWriter:
    """The policy itself, as a `StepWriter`."""

    generator: Generator
    renderer: StepRenderer
    temperature: float
    """Sampling temperature; 0 is greedy."""

    async def write(self, step: Step, session: str, *, seed: int) -> Generation:
        try:
            return await self.generator.generate(
                GenerationRequest(
                    conversation_id=session,
                    prompt_ids=step.prompt_ids,
                    max_tokens=step.max_tokens,
                    stop_ids=self.renderer.stop_ids,
                    temperature=self.temperature,
                    seed=seed,
                    grammar=self.renderer.grammar(step.task),
                )
            )
        finally:
            await self.generator.release(session)


@dataclass(frozen=True, kw_only=True)
class TestbenchAgent:
    """A `coevolve.rollouts.agent.Agent` that takes one step on a coverage task."""

    writer: StepWriter
    simulator: TestbenchSimulator
    renderer: StepRenderer
    designs: Catalogue
    limits: RolloutConfig
    simulation: SimulationLimits
    weights: RewardConfig = COVERAGE_ALONE

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Write one testbench and grade it; see `coevolve.rollouts.agent.Agent`."""
        given = coverage_task(task)
        started = time.monotonic()
        design = self.designs.get(given.design)
        points = await self.simulator.points(design.unit)
        step = self._step(given, design, points)
        transcript = Transcript()
        transcript.feed(step.prompt_ids)
        generation = await self.writer.write(step, session, seed=seed)
        transcript.add(generation)
        ended, made, cpu_s = await self._grade(step, generation)
        return Episode(
            tokens=transcript.tokens(),
            actions=(),
            turns_passed=int(ended == "finished"),
            turns_total=1,
            ended=ended,
            versions=tuple(transcript.sampled_versions()),
            oldest_version=transcript.oldest_version(),
            wall_s=time.monotonic() - started,
            reward=reward_of(made.outcome, self.weights) if made else 0.0,
            outcome=NOTHING if made is None else body_of(made),
            outcome_key=outcome_key(made),
            simulator_cpu_s=cpu_s,
        )

    def _step(self, task: CoverageTask, design: Design, points: Sequence[Point]) -> Step:
        prompt_ids = tuple(self.renderer.prompt(task, design, points))
        room = room_left(self.limits, task.task_id, len(prompt_ids))
        return Step(
            task=task,
            design=design,
            points=points,
            prompt_ids=prompt_ids,
            max_tokens=min(room, self.limits.max_call_tokens),
        )

    async def _grade(
        self, step: Step, generation: Generation
    ) -> tuple[Ending, Graded | None, float]:
        """Return the step's ending, its testbench, and the simulator's CPU seconds."""
        if not generation.stopped:
            return "too_long", None, 0.0
        try:
            submission = self.renderer.read(step.task, generation.token_ids)
        except ValueError:
            return "malformed", None, 0.0
        request = grading(
            step.design,
            submission,
            self.simulation,
            instance=step.task.instance,
            trial=self.weights.tries,
        )
        evaluated = await self.simulator.evaluate(request)
        made = graded(submission, evaluated)
        passed = meets(coverage_of(made), step.task.threshold)
        return "finished" if passed else "wrong", made, evaluated.cpu_s


async def written_by(agent: Agent, task: CoverageTask, session: str, *, seed: int) -> Graded | None:
    """Return the testbench that an agent writes; None if its answer has none."""
    episode = await agent.attempt(task.task(), session, seed=seed)
    return read_outcome(episode.outcome)


@dataclass(frozen=True, kw_only=True)
class StepScorer:
    """Lets the policy take some steps on a design; the best testbench is the score.

    With ``keeps_best`` a step starts from the best testbench so far, else from the last one.
    """

    agent: Agent
    rounds: int
    keeps_best: bool
    weights: RewardConfig = COVERAGE_ALONE
    planned: frozenset[str] = frozenset()
    """Designs with a plan."""

    async def score(self, task: Task, session: str) -> TaskScore:
        """Return the best testbench's coverage; see `coevolve.rollouts.evaluator.Scorer`."""
        given = coverage_task(task)

        async def take(step: CoverageTask, number: int) -> Graded | None:
            return await written_by(self.agent, step, f"{session}/{number}", seed=number)

        written = await chained(
            take, given, steps=self.rounds, keeps_best=self.keeps_best, weights=self.weights
        )
        made = [state for state in written if state is not None]
        chosen = best(made, self.weights) if made else None
        coverage = coverage_of(chosen) if chosen else None
        return TaskScore(
            task_id=task.task_id,
            turns_passed=int(meets(coverage, given.threshold)),
            turns_total=1,
            measures={"coverage": float(average(coverage))}
            | self._others(chosen, planned=given.design in self.planned),
        )

    def _others(self, chosen: Graded | None, *, planned: bool) -> dict[str, float]:
        """Return the measures that the run's rewards count besides coverage."""
        outcome = chosen.outcome if chosen else None
        ran = outcome if isinstance(outcome, Covered) and not outcome.faults else None
        measures: dict[str, float] = {}
        if self.weights.tries:
            measures["mutation"] = ran.mutants.score if ran and ran.mutants else 0.0
        if self.weights.plan and planned:
            measures["plan"] = (ran.coverage.share("plan") if ran else None) or 0.0
        return measures

"""One step on a design: prompt, submission, simulation.

Memoryless (LLM4Cov, arXiv 2602.16953): what the policy sees is a function of the task. Token-in
token-out: what the engine sampled is what the learner trains on. Who writes may be another than the
policy (`StepWriter`); it is recorded in the policy's tokens all the same.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coevolve.environments.hdl.curation.states import average, meets, reached
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.policy.chains import best, chained
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.rollouts.conversation import Played, Player, Transcript
from protocols.config import RolloutConfig
from protocols.designs import Design
from protocols.errors import SimulatorError
from protocols.generation import Generation, GenerationRequest
from protocols.hardware import Point, SimulationLimits
from protocols.interfaces import Generator, StepRenderer, TestbenchSimulator
from protocols.learning import TaskScore
from protocols.rollouts import Ending
from protocols.tasks import AnyTask, CoverageTask, TaskBody
from protocols.transitions import Graded, coverage_of


@dataclass(frozen=True, kw_only=True)
class Step:
    """What whoever writes a testbench is given."""

    task: CoverageTask
    design: Design
    points: Sequence[Point]
    prompt_ids: tuple[int, ...]
    """As the policy sees it."""

    max_tokens: int
    """Of the answer."""


class StepWriter(Protocol):
    """Whoever writes testbenches."""

    async def write(self, step: Step, session: str, *, seed: int) -> Generation:
        """Return the answer in the policy's tokens; ``session`` names it in an engine's cache.

        Raises:
            GeneratorError: The engine broke; nothing is known about the policy.
            EndpointError: A model that teaches does not answer; likewise.
            OverBudgetError: It may not be asked any more.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class PolicyWriter:
    """The policy itself, as a `StepWriter`."""

    generator: Generator
    renderer: StepRenderer
    temperature: float
    """0 is greedy."""

    async def write(self, step: Step, session: str, *, seed: int) -> Generation:
        """Sample the answer."""
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
class Workbench:
    """Where steps take place; a `coevolve.rollouts.conversation.Player` of coverage tasks."""

    writer: StepWriter
    simulator: TestbenchSimulator
    renderer: StepRenderer
    designs: Catalogue
    limits: RolloutConfig
    simulation: SimulationLimits

    async def play(self, task: TaskBody | CoverageTask, session: str, *, seed: int) -> Played:
        """Write one testbench and have it graded; see `coevolve.rollouts.conversation.Player`."""
        if not isinstance(task, CoverageTask):
            raise TypeError(f"a workbench needs a task on a design, found {type(task).__name__}")
        started = time.monotonic()
        design = await self.designs.get(task.design)
        points = await self.simulator.points(design.unit)
        step = self._step(task, design, points)
        transcript = Transcript()
        transcript.feed(step.prompt_ids)
        generation = await self.writer.write(step, session, seed=seed)
        transcript.add(generation)
        ended, made, cpu_s = await self._judged(step, generation)
        return Played(
            tokens=transcript.tokens(),
            actions=(),
            turns_passed=int(ended == "finished"),
            turns_total=1,
            ended=ended,
            versions=tuple(transcript.sampled_versions()),
            oldest_version=transcript.oldest_version(),
            wall_s=time.monotonic() - started,
            graded=made,
            goal_share=_goal_share(task, made),
            simulator_cpu_s=cpu_s,
        )

    def _step(self, task: CoverageTask, design: Design, points: Sequence[Point]) -> Step:
        prompt_ids = tuple(self.renderer.prompt(task, design, points))
        room = self.limits.max_tokens - len(prompt_ids)
        if room < 1:
            raise SimulatorError(
                f"task {task.task_id}: a prompt needs to be shorter than rollout.max_tokens = "
                f"{self.limits.max_tokens}, found {len(prompt_ids)} tokens; raise it, or "
                "lower environment.feedback_characters"
            )
        return Step(
            task=task,
            design=design,
            points=points,
            prompt_ids=prompt_ids,
            max_tokens=min(room, self.limits.max_call_tokens),
        )

    async def _judged(
        self, step: Step, generation: Generation
    ) -> tuple[Ending, Graded | None, float]:
        """Return how the step ended, its testbench, and the simulator's CPU seconds."""
        if not generation.stopped:
            return "too_long", None, 0.0
        try:
            submission = self.renderer.read(step.task, generation.token_ids)
        except ValueError:
            return "malformed", None, 0.0
        asked = grading(step.design, submission, self.simulation, instance=step.task.instance)
        evaluated = await self.simulator.evaluate(asked)
        made = graded(submission, evaluated)
        passed = succeeds(step.task, made)
        return "finished" if passed else "wrong", made, evaluated.cpu_s


def _goal_share(task: CoverageTask, made: Graded | None) -> float | None:
    """Return how much of the task's goal a testbench covers; None where there is no goal."""
    if not task.goal:
        return None
    return len(reached(task.goal, made)) / len(task.goal) if made else 0.0


def succeeds(task: CoverageTask, made: Graded) -> bool:
    """Return whether a testbench does what is asked: the goal, where there is one."""
    if task.goal:
        return len(reached(task.goal, made)) == len(task.goal)
    return meets(coverage_of(made), task.threshold)


@dataclass(frozen=True, kw_only=True)
class StepExaminer:
    """Has the policy work on a held-out design for some steps; the best testbench is its score.

    With ``keeps_best`` a step starts from the best testbench so far, else from the last one.
    """

    player: Player
    rounds: int
    keeps_best: bool

    async def examine(self, task: AnyTask, session: str) -> TaskScore:
        """Return the coverage that was reached; see `coevolve.rollouts.evaluator.Examiner`."""
        assert isinstance(task, CoverageTask)

        async def take(step: CoverageTask, number: int) -> Graded | None:
            return (await self.player.play(step, f"{session}/{number}", seed=number)).graded

        written = await chained(take, task, steps=self.rounds, keeps_best=self.keeps_best)
        made = [state for state in written if state is not None]
        coverage = coverage_of(best(made)) if made else None
        return TaskScore(
            task_id=task.task_id,
            turns_passed=int(meets(coverage, task.threshold)),
            turns_total=1,
            coverage=float(average(coverage)),
        )

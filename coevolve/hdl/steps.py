"""One step of the policy on a design: prompt, submission, simulation.

Memoryless (LLM4Cov, arXiv 2602.16953): what the policy sees is a function of the task. Token-in
token-out: what the engine sampled is what the learner trains on.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevolve.hdl.curation.states import average
from coevolve.hdl.frontier import continued
from coevolve.rollout import Played, Player, Transcript
from protocols.config import RolloutConfig
from protocols.designs import Design
from protocols.errors import SimulatorError
from protocols.generation import Generation, GenerationRequest
from protocols.hardware import Evaluate, SimulationLimits, Stimulus, Submission
from protocols.interfaces import Generator, StepRenderer, TestbenchSimulator
from protocols.learning import TaskScore
from protocols.rollouts import Ending
from protocols.tasks import AnyTask, CoverageTask, TaskBody
from protocols.transitions import Graded, coverage_of


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """Where steps take place; a `coevolve.rollout.Player` of coverage tasks."""

    generator: Generator
    simulator: TestbenchSimulator
    renderer: StepRenderer
    designs: Mapping[str, Design]
    limits: RolloutConfig
    simulation: SimulationLimits
    temperature: float
    """0 is greedy."""

    async def play(self, task: TaskBody | CoverageTask, session: str, *, seed: int) -> Played:
        """Write one testbench and have it graded; see `coevolve.rollout.Player`."""
        if not isinstance(task, CoverageTask):
            raise TypeError(f"a workbench needs a task on a design, found {type(task).__name__}")
        started = time.monotonic()
        design = self.designs[task.design]
        points = await self.simulator.points(design.unit)
        transcript = Transcript()
        transcript.feed(self.renderer.prompt(task, design, points))
        ended, graded = await self._step(task, design, transcript, session, seed)
        return Played(
            tokens=transcript.tokens(),
            actions=(),
            turns_passed=int(ended == "finished"),
            turns_total=1,
            ended=ended,
            versions=tuple(transcript.sampled_versions()),
            wall_s=time.monotonic() - started,
            graded=graded,
        )

    async def _step(
        self, task: CoverageTask, design: Design, transcript: Transcript, session: str, seed: int
    ) -> tuple[Ending, Graded | None]:
        room = self.limits.max_tokens - len(transcript.token_ids)
        if room < 1:
            raise SimulatorError(
                f"task {task.task_id}: a prompt needs to be shorter than rollout.max_tokens = "
                f"{self.limits.max_tokens}, found {len(transcript.token_ids)} tokens; raise it, or "
                "lower hdl.feedback_characters"
            )
        try:
            generation = await self._generate(task, transcript, session, seed, room)
        finally:
            await self.generator.release(session)
        transcript.add(generation)
        if not generation.stopped:
            return "too_long", None
        try:
            submission = self.renderer.read(task, generation.token_ids)
        except ValueError:
            return "malformed", None
        graded = await self._graded(task, design, submission)
        passed = average(coverage_of(graded)) >= task.threshold
        return "finished" if passed else "wrong", graded

    async def _generate(
        self, task: CoverageTask, transcript: Transcript, session: str, seed: int, room: int
    ) -> Generation:
        return await self.generator.generate(
            GenerationRequest(
                conversation_id=session,
                prompt_ids=tuple(transcript.token_ids),
                max_tokens=min(room, self.limits.max_call_tokens),
                stop_ids=self.renderer.stop_ids,
                temperature=self.temperature,
                seed=seed,
                grammar=self.renderer.grammar(task),
            )
        )

    async def _graded(self, task: CoverageTask, design: Design, submission: Submission) -> Graded:
        evaluated = await self.simulator.evaluate(
            Evaluate(
                unit=design.unit,
                submission=submission,
                instance=task.instance,
                seed=design.file.seed,
                limits=self.simulation,
            )
        )
        return Graded(
            testbench=evaluated.testbench,
            program=submission.program if isinstance(submission, Stimulus) else "",
            outcome=evaluated.outcome,
            key=evaluated.key,
        )


@dataclass(frozen=True, kw_only=True)
class StepExaminer:
    """Has the policy work on a held-out design for some steps; the best testbench is its score.

    With ``keeps_best`` a step starts from the best testbench so far, else from the last one. Of two
    the better is the one that ran, then the one with more coverage; of equals the later.
    """

    player: Player
    rounds: int
    keeps_best: bool

    async def examine(self, task: AnyTask, session: str) -> TaskScore:
        """Return the coverage that was reached; see `coevolve.evaluator.Examiner`."""
        assert isinstance(task, CoverageTask)
        state: Graded | None = None
        made: list[Graded] = []
        for number in range(self.rounds):
            step = continued(task, state, "") if state else task
            played = await self.player.play(step, f"{session}/{number}", seed=number)
            if played.graded is not None:
                made.append(played.graded)
                state = best(made) if self.keeps_best else played.graded
            if state is not None and average(coverage_of(state)) == 1:
                break
        reached = average(coverage_of(best(made))) if made else 0
        return TaskScore(
            task_id=task.task_id,
            turns_passed=int(reached >= task.threshold),
            turns_total=1,
            coverage=float(reached),
        )


def best(states: Sequence[Graded]) -> Graded:
    """Return the best of at least one testbench; of equals the last."""
    ranks = [(coverage_of(state) is not None, average(coverage_of(state))) for state in states]
    return states[max(range(len(states)), key=lambda index: (ranks[index], index))]

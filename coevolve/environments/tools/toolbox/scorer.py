"""Exact scores: success at temperature 1 is the likelihood of the one answer that is right.

So a score has no sampling error. All tasks that are scored share one forward for each version.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence

from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.tools.interfaces import Renderer
from protocols.interfaces import ScoringGenerator
from protocols.learning import TaskScore
from protocols.tasks import Task


class LikelihoodScorer:
    """A `coevolve.rollouts.evaluator.Scorer`; the likelihood is the score.

    A task counts as passed from a likelihood of one half on, where greedy decoding is right too.
    """

    def __init__(self, engine: VerifiedEngine, renderer: Renderer, tasks: Sequence[Task]) -> None:
        """Score ``tasks`` together, and others one by one."""
        self._engine = engine
        self._renderer = renderer
        self._tasks = tasks
        self._known: Mapping[str, float] = {}
        self._version: int | None = None
        self._scoring = asyncio.Lock()

    async def score(self, task: Task, session: str) -> TaskScore:
        """Return the likelihood of the task's reference. Raises GeneratorError."""
        async with self._scoring:
            if self._version != self._engine.version:
                self._known = await self._likelihoods(self._tasks)
                self._version = self._engine.version
        known = self._known if task.task_id in self._known else await self._likelihoods((task,))
        likelihood = known[task.task_id]
        return TaskScore(
            task_id=task.task_id,
            turns_passed=int(likelihood > 0.5),
            turns_total=1,
            measures={"likelihood": likelihood},
        )

    async def _likelihoods(self, tasks: Sequence[Task]) -> Mapping[str, float]:
        generator = self._engine.generator
        assert isinstance(generator, ScoringGenerator)  # `ToolboxEnvironment.faults`
        shown = [self._renderer.demonstration(task) for task in tasks]
        every = await generator.logprobs([ids for ids, _ in shown])
        return {
            task.task_id: math.exp(
                sum(each for each, said in zip(logprobs, mask[1:], strict=True) if said)
            )
            for task, (_, mask), logprobs in zip(tasks, shown, every, strict=True)
        }

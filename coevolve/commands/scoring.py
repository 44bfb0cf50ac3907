"""Scores a policy version on tasks in this process, as an evaluator with its own engine does."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from itertools import count
from pathlib import Path

from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.open_engine import open_engine
from coevolve.environments.interface import Environment
from coevolve.environments.registry import environment_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.reader import STORE_FOLDER
from coevolve.models.scratch_folder import scratch_folder
from coevolve.parts.context import PartContext
from coevolve.rollouts.evaluator import Scorer
from protocols.interfaces import SimulatorService
from protocols.learning import PolicyVersion, TaskScore
from protocols.tasks import Task


class Scoring:
    """Scores one version on tasks."""

    def __init__(
        self, environment: Environment, scorer: Scorer, simulator: SimulatorService, concurrent: int
    ) -> None:
        self.environment = environment
        self._scorer = scorer
        self._simulator = simulator
        self._gate = asyncio.Semaphore(concurrent)
        self._attempts = count()

    async def of(self, tasks: Sequence[Task]) -> tuple[TaskScore, ...]:
        """Return the score of each task. Raises SimulatorError and GeneratorError."""
        return tuple(await asyncio.gather(*map(self._score, tasks)))

    async def instances(self, tasks: Sequence[Task], seed: int) -> Mapping[str, Task]:
        """Return further instances of tasks, as the environment makes them."""
        return await self.environment.instances(tasks, seed, [self._simulator])

    async def _score(self, task: Task) -> TaskScore:
        async with self._gate:
            return await self._scorer.score(task, f"score-{next(self._attempts)}")


@asynccontextmanager
async def open_scoring(
    context: PartContext, version: PolicyVersion | None = None
) -> AsyncGenerator[Scoring]:
    """Yield what scores a version; the default is the model at the start.

    Raises DeliveryError and GeneratorError.
    """
    environment, concurrent = environment_of(context.config), context.config.evaluator.concurrent
    engine = open_engine(context.config, context.run_dir, concurrent)
    simulator = environment.simulator()
    proven = VerifiedEngine(context, "evaluator", engine)
    try:
        if version is not None:
            await proven.serve(version)
        scorer = environment.scorer(context, proven, [simulator])
        yield Scoring(environment, scorer, simulator, concurrent)
    finally:
        await engine.close()
        await simulator.close()


@contextmanager
def spare_store() -> Generator[tuple[Path, LocalStore]]:
    """Yield a folder with an empty journal; both are removed after the block."""
    with scratch_folder() as spare, closing(Journal.open(spare.path / STORE_FOLDER)) as journal:
        yield spare.path, LocalStore(journal)

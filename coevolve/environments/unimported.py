"""Stands in for the environment of a run whose class is not imported, where a run is only read."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec

from coevolve.curriculum.task_sampler import TaskSampler, sampler_of
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.findings import Finding
from coevolve.environments.interface import Environment
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent
from coevolve.rollouts.evaluator import Scorer
from protocols.capabilities import Capabilities
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.interfaces import SimulatorService
from protocols.rollouts import Writer
from protocols.tasks import Task, TaskText, TurnText


class Unimported(Environment):
    """What the journal says without the class: no tables, no rollouts, no labels of tasks.

    Whatever attempts or checks tasks raises ConfigError.
    """

    name: ClassVar[str] = "unimported"
    swappable: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = Capabilities(fresh_instances=True)
    withheld: ClassVar[str] = (
        "The run's own class is not imported, so its rollouts and tables are not shown; give "
        "--code FOLDER, the folder that holds the class, if you trust the code there"
    )

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._tasks = NoTasks()

    def texts(self) -> Iterable[str]:
        return ()

    def scored_tasks(self) -> Sequence[Task]:
        return ()

    def sampler(self) -> TaskSampler:
        """Return a sampler that can be folded from the journal; it has no task of its own."""
        return sampler_of(self._config, self._tasks)

    def describe(self, task: Task) -> TaskText:
        """Return the instructions of a task with tools; of others, the id."""
        from coevolve.environments.tools.task import read_body

        with contextlib.suppress(msgspec.MsgspecError):
            asked = [turn.instruction for turn in read_body(task.body).turns]
            turns = tuple(TurnText(instruction=each) for each in asked)
            return TaskText(headline=asked[0], turns=turns)
        return TaskText(headline=task.task_id)

    async def conformance(self, most: int) -> tuple[Finding, ...]:
        raise self._refusal()

    def simulator(self) -> SimulatorService:
        raise self._refusal()

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        raise self._refusal()

    def scorer(
        self, context: PartContext, engine: VerifiedEngine, simulators: Sequence[SimulatorService]
    ) -> Scorer:
        raise self._refusal()

    def _refusal(self) -> ConfigError:
        return ConfigError(f"environment.use: {self._config.uses}: {self.withheld}")


class NoTasks:
    """A `protocols.interfaces.TaskSource` of which nothing is known."""

    def pool(self) -> Sequence[Task]:
        return ()

    def held_out(self) -> Sequence[Task]:
        return ()

    def canaries(self, count: int) -> Sequence[Task]:
        del count
        return ()

    def draw(self, number: int) -> tuple[Task, bool]:
        """Refuse: nothing is drawn where a run is only read."""
        raise AssertionError(number)

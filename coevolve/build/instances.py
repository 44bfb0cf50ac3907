"""Makes the instances of tasks that a run trains on, with a simulator of its own."""

import structlog

from coevolve.environments.interface import Environment
from protocols.errors import SimulatorError
from protocols.interfaces import SimulatorService
from protocols.tasks import Task

log = structlog.get_logger()


class InstanceMaker:
    """A `coevolve.curriculum.worker.Instantiate`; the simulator starts with the first instance."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._simulator: SimulatorService | None = None

    async def __call__(self, task: Task, instance: int) -> Task | None:
        """Return the instance; None if there is none, or if the simulator failed."""
        if self._simulator is None:
            self._simulator = self._environment.simulator()
        try:
            made = await self._environment.instances((task,), instance, (self._simulator,))
        except SimulatorError as error:
            log.warning("instance_failed", task=task.task_id, reason=str(error))
            return None
        return made.get(task.task_id)

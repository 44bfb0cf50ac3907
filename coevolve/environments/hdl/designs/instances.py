"""Makes the instances of tasks on designs that hold by execution.

An instance of a design is used if it has as many points as the design, its good testbench covers as
much as admission requires, and the design's own good testbench does not reach the threshold on it.
Only tasks from the beginning of a given design have instances.
"""

from collections.abc import Sequence

import msgspec

from coevolve.environments.hdl.curation.states import average, meets
from coevolve.environments.hdl.designs.design import GOOD_AT_LEAST, Design
from coevolve.environments.hdl.designs.renaming import instance, instance_id
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import Blank, coverage_of
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Coverage, SimulationLimits, Testbench
from coevolve.environments.sdk import instances_of
from protocols.errors import ConfigError
from protocols.tasks import Instantiated, Task, attempted


class DesignInstances:
    """Makes instances of tasks on the given designs."""

    def __init__(
        self,
        designs: Sequence[Design],
        simulator: TestbenchSimulator,
        limits: SimulationLimits,
    ) -> None:
        self._designs = {design.design_id: design for design in designs}
        self._simulator = simulator
        self._limits = limits

    async def of(self, tasks: Sequence[Task], seed: int) -> dict[str, Task]:
        """Return an instance of each task by the task's id, without tasks that have none.

        Equal arguments give equal instances. Raises SimulatorError if the machine failed.
        """
        return await instances_of(tasks, lambda task: self._instance(task, seed))

    async def _instance(self, task: Task, seed: int) -> Task | None:
        given = coverage_task(task)
        design = self._designs.get(given.design)
        if design is None or not isinstance(given.state, Blank):
            return None
        return _task(given, seed) if await self.holds(design, seed) else None

    async def holds(self, design: Design, seed: int) -> bool:
        """Return whether a design has this instance. Raises SimulatorError."""
        other = instance(design, seed)
        try:
            points = await self._simulator.points(other.unit)
            if len(points) != len(await self._simulator.points(design.unit)):
                return False
            good = await self._coverage(other, other)
            memorized = await self._coverage(other, design)
        except ConfigError:  # the instance does not compile
            return False
        return average(good) >= GOOD_AT_LEAST and not meets(memorized, design.file.threshold)

    async def _coverage(self, unit: Design, writer: Design) -> Coverage | None:
        """Return the coverage of one design by another's good testbench."""
        submission = Testbench(text=writer.testbenches["good"])
        evaluated = await self._simulator.evaluate(grading(unit, submission, self._limits))
        return coverage_of(graded(submission, evaluated))


def _task(given: CoverageTask, seed: int) -> Task:
    return msgspec.structs.replace(
        given,
        task_id=attempted(given.task_id, seed),
        design=instance_id(given.design, seed),
        origin=Instantiated(root=given.task_id, instance=seed),
    ).task()

"""A simulator that limits concurrent evaluations and retries infrastructure failures."""

import asyncio
import contextlib

from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Point, Unit
from protocols.errors import SimulatorError


class BoundedSimulator:
    """A `TestbenchSimulator` in front of another one."""

    def __init__(self, simulator: TestbenchSimulator, *, most: int, tries: int) -> None:
        """Run at most ``most`` evaluations at a time, with up to ``tries`` tries each."""
        self._simulator = simulator
        self._tries = tries
        self._gate = asyncio.Semaphore(most)

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission; may wait first. Raises SimulatorError after the last try."""
        async with self._gate:
            for _ in range(self._tries - 1):
                with contextlib.suppress(SimulatorError):
                    return await self._simulator.evaluate(request)
            return await self._simulator.evaluate(request)

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        return await self._simulator.points(unit)

"""A simulator that runs so many evaluations at a time and no more, and tries again what breaks."""

import asyncio
import contextlib

from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Point, Unit
from protocols.errors import SimulatorError


class BoundedSimulator:
    """A `protocols.interfaces.TestbenchSimulator` in front of another."""

    def __init__(self, simulator: TestbenchSimulator, *, most: int, tries: int) -> None:
        """Let ``most`` evaluations through at a time, each for up to ``tries`` times."""
        self._simulator = simulator
        self._tries = tries
        self._gate = asyncio.Semaphore(most)

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission when it is its turn. Raises SimulatorError after the last try."""
        async with self._gate:
            for _ in range(self._tries - 1):
                with contextlib.suppress(SimulatorError):
                    return await self._simulator.evaluate(request)
            return await self._simulator.evaluate(request)

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points."""
        return await self._simulator.points(unit)

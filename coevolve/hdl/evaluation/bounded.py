"""A simulator that runs so many evaluations at a time and no more."""

import asyncio

from protocols.hardware import Evaluate, Evaluated, Point, Unit
from protocols.interfaces import TestbenchSimulator


class BoundedSimulator:
    """A `protocols.interfaces.TestbenchSimulator` in front of another."""

    def __init__(self, simulator: TestbenchSimulator, most: int) -> None:
        """Let ``most`` evaluations through at a time; others wait."""
        self._simulator = simulator
        self._gate = asyncio.Semaphore(most)

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission when it is its turn."""
        async with self._gate:
            return await self._simulator.evaluate(request)

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points."""
        return await self._simulator.points(unit)

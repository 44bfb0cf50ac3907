"""The hardware simulators of a run as one: evaluations spread over workers.

An evaluation goes where the fewest are under way. What a machine fails at is tried again, elsewhere
where there is another worker, and raises `SimulatorError` after `TRIES`; a worker whose last
evaluations failed counts as busier, twice as much for each in a row, so that a dead one does not
attract everything by being idle.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from protocols.errors import SimulatorError
from protocols.hardware import Evaluate, Evaluated, Point, Unit
from protocols.interfaces import TestbenchSimulator

T = TypeVar("T")

TRIES = 3
RETRY_PAUSE_S = 0.5
MAX_PENALTY = 2**10


@dataclass(eq=False)
class _Lane:
    """One worker, and how busy it is."""

    worker: TestbenchSimulator
    running: int = 0
    penalty: int = 0

    def load(self) -> int:
        return self.running + self.penalty

    async def ask(self, question: Callable[[TestbenchSimulator], Awaitable[T]]) -> T:
        self.running += 1
        try:
            answer = await question(self.worker)
        except SimulatorError:
            self.penalty = min(MAX_PENALTY, max(4, 2 * self.penalty))
            raise
        else:
            self.penalty = 0
            return answer
        finally:
            self.running -= 1


class EvaluationPool:
    """A `protocols.interfaces.TestbenchSimulator` over several, for the designs of one run."""

    def __init__(
        self, workers: Sequence[TestbenchSimulator], *, retry_pause_s: float = RETRY_PAUSE_S
    ) -> None:
        if not workers:
            raise ValueError("a pool of simulators needs at least one worker")
        self._lanes = [_Lane(worker) for worker in workers]
        self._retry_pause_s = retry_pause_s
        self._points: dict[Unit, asyncio.Task[tuple[Point, ...]]] = {}

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission on whichever worker; raises SimulatorError after the last try."""
        return await self._ask(lambda worker: worker.evaluate(request))

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points; each unit's are asked for once. Raises as ``evaluate``."""
        if unit not in self._points:
            asking = self._ask(lambda worker: worker.points(unit))
            self._points[unit] = asyncio.create_task(asking)
        try:
            return await asyncio.shield(self._points[unit])
        except SimulatorError:
            self._points.pop(unit, None)
            raise

    async def _ask(self, question: Callable[[TestbenchSimulator], Awaitable[T]]) -> T:
        for attempt in range(TRIES - 1):
            try:
                return await min(self._lanes, key=_Lane.load).ask(question)
            except SimulatorError:
                await asyncio.sleep(self._retry_pause_s * 2**attempt)
        return await min(self._lanes, key=_Lane.load).ask(question)

"""Distributes evaluations over the hardware simulators of a run.

Each evaluation goes to the worker with the lowest load. An infrastructure failure raises
`SimulatorError` at once, and the caller retries (``rollout.tries``). A worker gets a penalty on its
load after a failure, doubled for each further failure in a row. So the next try goes to another
worker if there is one, and a dead worker does not attract requests by being idle.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Point, Unit
from protocols.errors import SimulatorError

T = TypeVar("T")

MAX_PENALTY = 2**10


@dataclass(eq=False)
class _Lane:
    """One worker and its load."""

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
    """A pool of simulators for the designs of one run, itself a `TestbenchSimulator`."""

    def __init__(self, workers: Sequence[TestbenchSimulator]) -> None:
        if not workers:
            raise ValueError("a pool of simulators needs at least one worker")
        self._lanes = [_Lane(worker) for worker in workers]
        self._points: dict[Unit, asyncio.Task[tuple[Point, ...]]] = {}

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission on the least busy worker. Raises SimulatorError and ConfigError."""
        return await self._ask(lambda worker: worker.evaluate(request))

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points; cached. Retries on another worker after a failure.

        Raises as ``evaluate``, after as many failures as there are workers, at least two.
        """
        asking = self._points.get(unit)
        if asking is None:
            asking = self._points[unit] = asyncio.create_task(self._find_points(unit))
        try:
            return await asyncio.shield(asking)
        except SimulatorError:
            if self._points.get(unit) is asking:
                del self._points[unit]
            raise

    async def _find_points(self, unit: Unit) -> tuple[Point, ...]:
        for _ in range(max(1, len(self._lanes) - 1)):
            with contextlib.suppress(SimulatorError):
                return await self._ask(lambda worker: worker.points(unit))
        return await self._ask(lambda worker: worker.points(unit))

    async def _ask(self, question: Callable[[TestbenchSimulator], Awaitable[T]]) -> T:
        return await min(self._lanes, key=_Lane.load).ask(question)

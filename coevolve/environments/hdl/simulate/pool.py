"""The hardware simulators of a run as one: evaluations spread over workers.

An evaluation goes where the fewest are under way. What a machine fails at raises `SimulatorError`
at once: whoever asked tries again (``rollout.tries``). A worker whose last evaluations failed
counts as busier, twice as much for each in a row, so that the next try goes elsewhere where there
is another worker, and a dead one does not attract everything by being idle.
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

    def __init__(self, workers: Sequence[TestbenchSimulator]) -> None:
        if not workers:
            raise ValueError("a pool of simulators needs at least one worker")
        self._lanes = [_Lane(worker) for worker in workers]
        self._points: dict[Unit, asyncio.Task[tuple[Point, ...]]] = {}

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission on whichever worker. Raises SimulatorError and ConfigError."""
        return await self._ask(lambda worker: worker.evaluate(request))

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points, which are asked for once, of another worker where one fails.

        Raises as ``evaluate``, after so many failures as there are workers, at least two.
        """
        asking = self._points.get(unit)
        if asking is None:
            asking = self._points[unit] = asyncio.create_task(self._asked_for_points(unit))
        try:
            return await asyncio.shield(asking)
        except SimulatorError:
            if self._points.get(unit) is asking:
                del self._points[unit]
            raise

    async def _asked_for_points(self, unit: Unit) -> tuple[Point, ...]:
        for _ in range(max(1, len(self._lanes) - 1)):
            with contextlib.suppress(SimulatorError):
                return await self._ask(lambda worker: worker.points(unit))
        return await self._ask(lambda worker: worker.points(unit))

    async def _ask(self, question: Callable[[TestbenchSimulator], Awaitable[T]]) -> T:
        return await min(self._lanes, key=_Lane.load).ask(question)

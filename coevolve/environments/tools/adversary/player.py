"""Makes attempts, each in a new world, and outlives those that end the process."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from coevolve.environments.tools.adversary.calls import tools_in
from coevolve.environments.tools.adversary.probes import Attempt
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.trials import passes
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask
from protocols.errors import SimulatorError

MOST_LOST = 20
"""Processes that attempts may end before words are no longer tried again alone."""

AGAIN = 2
"""Further attempts that have to pass, too, where equal attempts may get different rewards."""


class Restarts(Protocol):
    """What counts the processes that were lost."""

    @property
    def restarts(self) -> int:
        """Number of processes that were replaced."""
        ...


class Player:
    """Makes attempts."""

    def __init__(self, pool: SimulatorPool, service: Restarts, *, certain: bool) -> None:
        self._pool = pool
        self._service = service
        self._again = 0 if certain else AGAIN
        self._lost = 0
        self._fatal: set[str] = set()
        """Tools that ended the process."""

    async def play(self, body: ToolTask, attempts: Sequence[Attempt]) -> list[Tried | None]:
        """Return the results; None for an attempt that cannot be made or graded.

        If one of them ends the process, the others are made again, each alone.
        """
        before = self._service.restarts
        found = list(await asyncio.gather(*(self._played(body, each) for each in attempts)))
        if self._service.restarts > before:
            for place, attempt in enumerate(attempts):
                if found[place] is None:
                    found[place] = await self._alone(body, attempt)
        return found

    async def _alone(self, body: ToolTask, attempt: Attempt) -> Tried | None:
        tools, before = tools_in(attempt), self._service.restarts
        if not tools and self._lost >= MOST_LOST:
            return None
        tried = await self._played(body, attempt)
        if self._service.restarts > before:
            self._lost += 1
            self._fatal |= tools
        return tried

    async def _played(self, body: ToolTask, attempt: Attempt) -> Tried | None:
        if self._fatal & tools_in(attempt):
            return None
        try:
            tried = await self._trial(body, attempt)
            for _ in range(self._again if passes(tried) else 0):
                again = await self._trial(body, attempt)
                tried = tried if passes(again) else again
        except SimulatorError:
            return None
        return tried

    async def _trial(self, body: ToolTask, attempt: Attempt) -> Tried:
        return await self._pool.trial("adversary", body, attempt.turns, attempt.words)

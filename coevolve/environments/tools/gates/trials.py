"""A candidate's trials: each in a new world, counted, and retried if a machine failed."""

import asyncio
import itertools

from coevolve.environments.tools.commands import Failed, Tried
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask
from protocols.errors import SimulatorError

TRIES = 3
PAUSE_S = 0.25
"""Seconds before the first retry, doubled before each further one; workers restart in seconds."""


class Trials:
    """Plays calls against one candidate's verifier."""

    calls: int
    """Number of calls executed so far."""

    def __init__(self, simulator: Simulator, name: str, body: ToolTask) -> None:
        self._simulator = simulator
        self._name = name
        self._body = body
        self._numbers = itertools.count()
        self.calls = 0

    async def play(self, turns: Turns) -> Tried:
        """Play ``turns`` once. Raises SimulatorError if all attempts fail."""
        for attempt in range(TRIES - 1):
            try:
                return await self._play_once(turns)
            except SimulatorError:
                await asyncio.sleep(PAUSE_S * 2**attempt)
        return await self._play_once(turns)

    async def _play_once(self, turns: Turns) -> Tried:
        name = f"{self._name}/trial-{next(self._numbers)}"
        tried = await self._simulator.trial(name, self._body, turns)
        self.calls += sum(len(turn.observed) for turn in tried.turns)
        return tried


def passes(tried: Tried) -> bool:
    """Return whether the verifier accepts every turn of the trial."""
    return not any(isinstance(turn.verdict, Failed) for turn in tried.turns)

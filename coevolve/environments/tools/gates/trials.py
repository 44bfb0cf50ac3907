"""A candidate's trials: each in a new world, counted, and retried if a machine failed."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from coevolve.environments.tools.commands import Failed, Observed, Tried
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.errors import SimulatorError

TRIES = 3
PAUSE_S = 0.25
"""Seconds before the first retry, doubled before each further one; workers restart in seconds."""

_NO_TURN = ToolTurn(instruction="", reference=())


class Step(NamedTuple):
    """One call and its effect."""

    call: str
    observed: Observed
    before: str
    after: str
    """Digests of the world (`tools.commands.TriedTurn.state`)."""

    @property
    def changes(self) -> bool:
        """Whether the call changed the world."""
        return self.before != self.after


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

    async def play(self, turns: Turns, body: ToolTask | None = None) -> Tried:
        """Play ``turns`` once, against another ``body`` if one is given.

        Raises SimulatorError if all attempts fail.
        """
        for attempt in range(TRIES - 1):
            try:
                return await self._play_once(turns, body or self._body)
            except SimulatorError:
                await asyncio.sleep(PAUSE_S * 2**attempt)
        return await self._play_once(turns, body or self._body)

    async def bare(self, turns: Turns) -> Tried:
        """Play ``turns`` with no tool withheld and no verifier; their verdicts mean nothing.

        Raises SimulatorError if all attempts fail.
        """
        # The last turn is never played: some tools would judge the attempt after it.
        empty = (_NO_TURN,) * (len(turns) + 1)
        body = msgspec.structs.replace(self._body, turns=empty, withheld=(), strict=False)
        return await self.play(turns, body)

    async def steps(self, calls: Sequence[str]) -> tuple[Step, ...]:
        """Return each call with its effect. Raises SimulatorError if all attempts fail."""
        tried = await self.bare(tuple((call,) for call in calls))
        states = (tried.initial, *(turn.state for turn in tried.turns))
        return tuple(
            Step(call, turn.observed[0], before, turn.state)
            for call, turn, before in zip(calls, tried.turns, states, strict=False)
        )

    async def _play_once(self, turns: Turns, body: ToolTask) -> Tried:
        name = f"{self._name}/trial-{next(self._numbers)}"
        tried = await self._simulator.trial(name, body, turns)
        self.calls += sum(len(turn.observed) for turn in tried.turns)
        return tried


def passes(tried: Tried) -> bool:
    """Return whether the verifier accepts every turn of the trial."""
    return not any(isinstance(turn.verdict, Failed) for turn in tried.turns)

"""A simulator that counts what is carried out in it."""

from collections.abc import Sequence

from coevolve.environments.tools.commands import Observed, Tried, Verdict
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask


class CountedSimulator:
    """A `protocols.interfaces.Simulator` that passes everything on and counts the calls."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.calls = 0

    async def reset(self, session: str, task: ToolTask) -> None:
        """Open a session on a fresh world."""
        await self._simulator.reset(session, task)

    async def act(self, session: str, text: str) -> Observed:
        """Carry out one call."""
        self.calls += 1
        return await self._simulator.act(session, text)

    async def grade(self, session: str, words: str = "") -> Verdict:
        """End the turn and compare it with the reference."""
        return await self._simulator.grade(session, words)

    async def release(self, session: str) -> None:
        """Forget the session."""
        await self._simulator.release(session)

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        """Play calls turn by turn in a world of their own."""
        self.calls += sum(map(len, turns))
        return await self._simulator.trial(name, task, turns)

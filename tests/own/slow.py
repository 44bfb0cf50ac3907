"""The environment of `sums` with attempts that last long, as those with slow tools do."""

import asyncio
from collections.abc import Mapping, Sequence

from sums import Sums

from coevolve.delivery.engine import VerifiedEngine
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent, Episode
from protocols.interfaces import SimulatorService
from protocols.rollouts import Writer
from protocols.tasks import Task

ATTEMPT_S = 6.0
"""Least duration of an attempt."""


class SlowAgent:
    """An agent that waits before it does what another one does."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Attempt a task, slowly."""
        await asyncio.sleep(ATTEMPT_S)
        return await self._agent.attempt(task, session, seed=seed)


class Slow(Sums):
    """`Sums` with a slow agent."""

    name = "slow"

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        """Return the policy's agent."""
        made = super().agents(name, context, engine, simulators)
        return {writer: SlowAgent(agent) for writer, agent in made.items()}

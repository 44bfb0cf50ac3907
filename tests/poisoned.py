"""The quickstart's environment with two requests at which the rollout process fails each time."""

import os
import signal
from collections.abc import Mapping, Sequence

from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.tools.filesystem.environment import Filesystem
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent, Episode
from protocols.interfaces import SimulatorService
from protocols.rollouts import Writer
from protocols.tasks import Task

RAISES = "g9/1/"
"""Beginning of the sessions of the request that raises an error."""

KILLS = "g20/2/"
"""Beginning of the sessions of the request that kills the process."""


class PoisonedAgent:
    """An agent that fails at two requests, and leaves the others to another agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Attempt a task."""
        if session.startswith(RAISES):
            raise ValueError("a number of 5,000 digits")
        if session.startswith(KILLS):
            os.kill(os.getpid(), signal.SIGKILL)
        return await self._agent.attempt(task, session, seed=seed)


class Poisoned(Filesystem):
    """The quickstart's environment with such an agent."""

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        """Return the policy's agent."""
        agents = super().agents(name, context, engine, simulators)
        return {writer: PoisonedAgent(agent) for writer, agent in agents.items()}

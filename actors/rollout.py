"""The policy's rollouts as a Ray actor: one engine and its conversations in a process."""

from pathlib import Path

import ray

from coevolve.build import parts as build
from coevolve.parts.starting import starting
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.interfaces import Store


class RolloutShell:
    """Gives a rollout worker a process."""

    def __init__(
        self,
        name: str,
        config: RunConfig,
        run_dir: str,
        store: Store,
        simulators: build.Simulators,
    ) -> None:
        folder = Path(run_dir)
        with starting(folder, name):
            site = build.site(config, folder, store)
            self._engine = build.generator(site, config.rollout.concurrent)
            self._part = build.rollout_worker(site, name, self._engine, simulators)

    async def run(self) -> None:
        """Work until stopped."""
        await self._part.run()

    async def stop(self) -> None:
        """Make ``run`` return."""
        await self._part.stop()

    async def status(self) -> PartStatus:
        """Say what the part is doing."""
        return self._part.status()

    async def cpu_s(self) -> float:
        """Return the CPU seconds spent in the model."""
        return self._engine.cpu_s()


RolloutActor = ray.remote(num_cpus=0, max_restarts=-1)(RolloutShell)

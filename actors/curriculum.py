"""The curriculum as a Ray actor."""

from pathlib import Path

import ray

from coevolve.build import parts as build
from coevolve.parts.starting import starting
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.interfaces import Store


class CurriculumShell:
    """Gives the curriculum a process."""

    def __init__(self, name: str, config: RunConfig, run_dir: str, store: Store) -> None:
        folder = Path(run_dir)
        with starting(folder, name):
            self._part = build.curriculum(build.site(config, folder, store))

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
        """Return 0: the curriculum runs neither a model nor a simulator."""
        return 0.0


CurriculumActor = ray.remote(num_cpus=0, max_restarts=-1)(CurriculumShell)

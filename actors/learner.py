"""The learner as a Ray actor: the optimizer's process."""

from pathlib import Path

import ray

from coevolve.build import parts as build
from coevolve.parts.starting import starting
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.interfaces import Store


class LearnerShell:
    """Gives the learner a process; torch loads here, where the part is made, and nowhere else."""

    def __init__(self, name: str, config: RunConfig, run_dir: str, store: Store) -> None:
        folder = Path(run_dir)
        with starting(folder, name):
            self._part = build.learner(build.site(config, folder, store))

    async def run(self) -> None:
        """Work until every step is taken or the part is stopped."""
        await self._part.run()

    async def stop(self) -> None:
        """Finish the step in hand, leave a checkpoint, and make ``run`` return."""
        await self._part.stop()

    async def status(self) -> PartStatus:
        """Say what the part is doing."""
        return self._part.status()

    async def cpu_s(self) -> float:
        """Return the CPU seconds spent in the model."""
        return self._part.cpu_s()


LearnerActor = ray.remote(num_cpus=0, max_restarts=-1)(LearnerShell)

"""The learner as a Ray actor with torch's optimizer: rollouts in, policy versions out."""

import ray

from actors.home import Home
from actors.part import PartShell, Working
from actors.remote_store import RemoteStore
from coevolve.build import parts as build
from coevolve.learning.sharded.rpc import RankStarter
from coevolve.parts.context import PartContext
from protocols.config import RunConfig
from protocols.interfaces import Part


class LearnerShell(PartShell):
    """Trains the policy."""

    def __init__(
        self,
        name: str,
        config: RunConfig,
        home: Home,
        store: RemoteStore,
        simulators: build.Simulators,
        ranks: RankStarter,
    ) -> None:
        self._ranks = ranks
        super().__init__(name, config, home, store, simulators)

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        part = build.learner(context, self._ranks)
        return part, part


LearnerActor = ray.remote(num_cpus=0, max_restarts=-1)(LearnerShell)

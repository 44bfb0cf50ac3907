"""A rollout worker as a Ray actor with its own engine: requests in, rollouts out."""

import ray

from actors.part import PartShell, Working
from coevolve.build import parts as build
from coevolve.parts.context import PartContext
from protocols.interfaces import Part


class RolloutShell(PartShell):
    """Runs the policy's attempts at tasks."""

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        engine = build.rollout_engine(context)
        return build.rollout_worker(context, name, engine, simulators), engine


RolloutActor = ray.remote(num_cpus=0, max_restarts=-1)(RolloutShell)

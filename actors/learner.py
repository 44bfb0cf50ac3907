"""The learner as a Ray actor with torch's optimizer: rollouts in, policy versions out."""

import ray

from actors.part import PartShell, Working
from coevolve.build import parts as build
from coevolve.parts.context import PartContext
from protocols.interfaces import Part


class LearnerShell(PartShell):
    """Trains the policy."""

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        part = build.learner(context)
        return part, part


LearnerActor = ray.remote(num_cpus=0, max_restarts=-1)(LearnerShell)

"""The curriculum as a Ray actor: it requests rollouts."""

import ray

from actors.part import PartShell, Working
from coevolve.build import parts as build
from coevolve.parts.context import PartContext
from protocols.interfaces import Part


class CurriculumShell(PartShell):
    """Requests rollouts, one group at a time."""

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        return build.curriculum(context), None


CurriculumActor = ray.remote(num_cpus=0, max_restarts=-1)(CurriculumShell)

"""The validator as a Ray actor: candidates in, verdicts and tasks out."""

import ray

from actors.part import PartShell, Working
from coevolve.build import parts as build
from coevolve.parts.context import PartContext
from protocols.interfaces import Part


class ValidatorShell(PartShell):
    """Validates candidates."""

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        return build.validator(context, simulators), None


ValidatorActor = ray.remote(num_cpus=0, max_restarts=-1)(ValidatorShell)

"""The signal extractor as a Ray actor: rollouts in, group summaries and signals out."""

import ray

from actors.part import PartShell, Working
from coevolve.build import parts as build
from coevolve.parts.context import PartContext
from protocols.interfaces import Part


class SignalsShell(PartShell):
    """Detects the policy's weaknesses."""

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        return build.signals(context, simulators), None


SignalsActor = ray.remote(num_cpus=0, max_restarts=-1)(SignalsShell)

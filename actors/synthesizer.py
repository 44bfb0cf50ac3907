"""The synthesizer as a Ray actor: signals in, candidates out."""

import ray

from actors.part import PartShell, Working
from coevolve.build import parts as build
from coevolve.parts.context import PartContext
from protocols.interfaces import Part


class SynthesizerShell(PartShell):
    """Makes tasks from signals."""

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        part = build.synthesizer(context, simulators)
        return part, part


SynthesizerActor = ray.remote(num_cpus=0, max_restarts=-1)(SynthesizerShell)

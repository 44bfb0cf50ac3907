"""The evaluator as a Ray actor: policy versions in, scores out."""

import ray

from actors.part import PartShell, Working
from coevolve.build import parts as build
from coevolve.parts.context import PartContext
from protocols.interfaces import Part


class EvaluatorShell(PartShell):
    """Scores policy versions."""

    def make(
        self, name: str, context: PartContext, simulators: build.Simulators
    ) -> tuple[Part, Working | None]:
        """Return the part."""
        engine = build.evaluator_engine(context)
        return build.evaluator(context, engine, simulators), engine


EvaluatorActor = ray.remote(num_cpus=0, max_restarts=-1)(EvaluatorShell)

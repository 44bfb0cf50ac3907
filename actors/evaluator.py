"""The part ``evaluator`` of `coevolve.loop` as a Ray actor."""

import ray

from actors.part import PartShell


class EvaluatorShell(PartShell):
    """Scores policy versions."""

    part = "evaluator"


EvaluatorActor = ray.remote(num_cpus=0, max_restarts=-1)(EvaluatorShell)

"""The part ``learner`` of `coevolve.loop` as a Ray actor."""

import ray

from actors.part import PartShell


class LearnerShell(PartShell):
    """Trains the policy."""

    part = "learner"


LearnerActor = ray.remote(num_cpus=0, max_restarts=-1)(LearnerShell)

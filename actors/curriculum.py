"""The part ``curriculum`` of `coevolve.loop` as a Ray actor."""

import ray

from actors.part import PartShell


class CurriculumShell(PartShell):
    """Requests rollouts, one group at a time."""

    part = "curriculum"


CurriculumActor = ray.remote(num_cpus=0, max_restarts=-1)(CurriculumShell)

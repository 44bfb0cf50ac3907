"""The part ``rollout`` of `coevolve.loop` as a Ray actor."""

import ray

from actors.part import PartShell


class RolloutShell(PartShell):
    """Lets the policy attempt tasks."""

    part = "rollout"


RolloutActor = ray.remote(num_cpus=0, max_restarts=-1)(RolloutShell)

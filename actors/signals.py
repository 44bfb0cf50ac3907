"""The part ``signals`` of `coevolve.loop` as a Ray actor."""

import ray

from actors.part import PartShell


class SignalsShell(PartShell):
    """Detects the policy's weaknesses."""

    part = "signals"


SignalsActor = ray.remote(num_cpus=0, max_restarts=-1)(SignalsShell)

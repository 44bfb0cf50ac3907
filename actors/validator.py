"""The part ``validator`` of `coevolve.loop` as a Ray actor."""

import ray

from actors.part import PartShell


class ValidatorShell(PartShell):
    """Validates candidates."""

    part = "validator"


ValidatorActor = ray.remote(num_cpus=0, max_restarts=-1)(ValidatorShell)

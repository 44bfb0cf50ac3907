"""The part ``synthesizer`` of `coevolve.loop` as a Ray actor."""

import ray

from actors.part import PartShell


class SynthesizerShell(PartShell):
    """Makes tasks from signals."""

    part = "synthesizer"


SynthesizerActor = ray.remote(num_cpus=0, max_restarts=-1)(SynthesizerShell)

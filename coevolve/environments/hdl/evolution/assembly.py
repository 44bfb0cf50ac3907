"""Puts the parts together that make tasks on designs: what watches, synthesizes and validates."""

from collections.abc import Sequence

from coevolve.environments.hdl import assembly as hardware
from coevolve.environments.hdl.evolution.enumeration import Enumeration
from coevolve.environments.hdl.evolution.gates import DesignGates
from coevolve.environments.hdl.evolution.observer import DesignObserver
from coevolve.environments.hdl.evolution.synthesizer import synthesizer_part
from coevolve.environments.hdl.policy.task import coverage_task
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.pool import EvaluationPool
from coevolve.journal.task_cache import TaskCache
from coevolve.parts.context import PartContext
from coevolve.parts.record_handler import AnsweringPart
from protocols.config import RunConfig
from protocols.interfaces import Reader


def observer(
    config: RunConfig, reader: Reader, workers: Sequence[TestbenchSimulator]
) -> DesignObserver:
    """Return what the signals part makes of groups; it remembers nothing yet."""
    return DesignObserver(
        config,
        tasks=TaskCache(reader, coverage_task),
        catalogue=hardware.catalogue(config, reader),
        simulator=EvaluationPool(workers),
    )


def synthesizer(context: PartContext, workers: Sequence[TestbenchSimulator]) -> AnsweringPart:
    """Return the part that makes candidates out of signals."""
    config, reader = context.config, context.reader
    enumeration = Enumeration(
        config,
        reader=reader,
        catalogue=hardware.catalogue(config, reader),
        simulator=EvaluationPool(workers),
    )
    return synthesizer_part(config, context.store, reader, enumeration)


def gates(context: PartContext, workers: Sequence[TestbenchSimulator]) -> DesignGates:
    """Return what judges candidates."""
    return DesignGates(
        context.config,
        reader=context.reader,
        catalogue=hardware.catalogue(context.config, context.reader),
        simulator=EvaluationPool(workers),
    )

"""Puts the parts together that make tasks on designs: what watches, synthesizes and validates."""

from collections.abc import Sequence

from coevolve.environments.hdl import assembly as hardware
from coevolve.environments.hdl.evolution.enumeration import Enumeration
from coevolve.environments.hdl.evolution.gates import DesignGates
from coevolve.environments.hdl.evolution.observer import DesignObserver
from coevolve.environments.hdl.evolution.synthesizer import synthesizer_part
from coevolve.environments.hdl.evolution.validator import validator_part
from coevolve.environments.hdl.simulate.pool import EvaluationPool
from coevolve.journal.task_cache import TaskShelf
from coevolve.parts.context import PartContext
from coevolve.parts.record_handler import AnsweringPart
from protocols.config import RunConfig
from protocols.interfaces import Reader, TestbenchSimulator
from protocols.tasks import CoverageTask


def observer(
    config: RunConfig, reader: Reader, workers: Sequence[TestbenchSimulator]
) -> DesignObserver:
    """Return what the signals part makes of groups; it remembers nothing yet."""
    return DesignObserver(
        config,
        tasks=TaskShelf(reader, CoverageTask),
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


def validator(context: PartContext, workers: Sequence[TestbenchSimulator]) -> AnsweringPart:
    """Return the part that judges candidates."""
    config, reader = context.config, context.reader
    gates = DesignGates(
        config,
        reader=reader,
        catalogue=hardware.catalogue(config, reader),
        simulator=EvaluationPool(workers),
    )
    return validator_part(config, context.store, reader, gates)

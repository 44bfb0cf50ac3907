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
from coevolve.parts.record_handler import AnsweringPart
from protocols.config import RunConfig
from protocols.interfaces import Reader, Store, TestbenchSimulator
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


def synthesizer(
    config: RunConfig, store: Store, reader: Reader, workers: Sequence[TestbenchSimulator]
) -> AnsweringPart:
    """Return the part that makes candidates out of signals."""
    enumeration = Enumeration(
        config,
        reader=reader,
        catalogue=hardware.catalogue(config, reader),
        simulator=EvaluationPool(workers),
    )
    return synthesizer_part(config, store, reader, enumeration)


def validator(
    config: RunConfig, store: Store, reader: Reader, workers: Sequence[TestbenchSimulator]
) -> AnsweringPart:
    """Return the part that judges candidates."""
    gates = DesignGates(
        config,
        reader=reader,
        catalogue=hardware.catalogue(config, reader),
        simulator=EvaluationPool(workers),
    )
    return validator_part(config, store, reader, gates)

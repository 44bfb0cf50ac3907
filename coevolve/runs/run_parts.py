"""The processes of a run, as its driver is given them."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from coevolve.runs.scaling import EnginePool
from protocols.interfaces import SupervisedPart


class RunParts(NamedTuple):
    """The processes of a run."""

    supervised: Sequence[SupervisedPart]
    """These include the first engines of ``pool``."""

    pool: EnginePool
    models: Sequence[SupervisedPart] = ()
    """The supervised ones, besides the engines, that compute with a model; their CPU time is
    counted apart."""

    simulators: Sequence[SupervisedPart] = ()
    """Ray alone restarts these and the services."""

    services: Sequence[SupervisedPart] = ()
    """The store and others that serve the parts."""

    optional: Collection[str] = ()
    """Names of the supervised parts that training does not need."""

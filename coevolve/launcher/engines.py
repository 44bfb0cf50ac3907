"""Where a run's rollout engines may be on its cluster, and what keeps further ones from it."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from coevolve.config import conflicts
from coevolve.launcher.devices import lacking
from coevolve.launcher.fitting import demands
from coevolve.launcher.nodes import Node, living_nodes
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.interfaces import SupervisedPart

ANYWHERE = ""
"""The only place if Ray chooses the nodes."""


class ClusterEngines:
    """A `coevolve.runs.scaling.EngineHost` on the cluster that this process has joined."""

    def __init__(
        self,
        config: RunConfig,
        start: Callable[[str, str], SupervisedPart],
        nodes: Callable[[], list[Node]] = living_nodes,
    ) -> None:
        """Let ``start`` start an engine by its name, on a node by Ray's id or ``ANYWHERE``."""
        self._config = config
        self._start = start
        self._nodes = nodes
        self._rooms: Mapping[str, int] = {}

    async def rooms(self) -> Mapping[str, int]:
        """Return the nodes that get engines, by Ray's id, and how many each.

        They are the last known ones while Ray does not answer.
        """
        if not self._config.rollout.actors_per_node:
            return {ANYWHERE: self._config.most_rollouts_in_flight}
        (demand,) = (each for each in demands(self._config) if each.part == "rollout")
        with contextlib.suppress(RunError):
            self._rooms = demand.rooms(await asyncio.to_thread(self._nodes))
        return self._rooms

    async def refusal(self, actors: int) -> str:
        """Return in sentences why the run cannot have this number of engines; empty if it can."""
        config = replace(self._config, rollout=replace(self._config.rollout, actors=actors))
        try:
            nodes = await asyncio.to_thread(self._nodes)
        except RunError as error:
            return str(error)
        faults = conflicts(config) or lacking(demands(config), nodes, config.cluster.address)
        return "; ".join(fault.removeprefix("$.") for fault in faults)

    def start(self, name: str, place: str) -> SupervisedPart:
        """Start an engine; it may take minutes to work."""
        return self._start(name, place)

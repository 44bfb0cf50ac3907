"""Where a run's rollout engines may be on its cluster, and what keeps further ones from it."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

import psutil
from msgspec.structs import replace

from coevolve.config.load import conflicts
from coevolve.launcher.devices import lacking
from coevolve.launcher.fitting import Demand, demands
from coevolve.launcher.nodes import Node, living_nodes
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.interfaces import SupervisedPart

ANYWHERE = ""
"""The only place if Ray chooses the nodes."""

GB = 1e9


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
        self._seen: Sequence[Node] = ()
        self._started: dict[str, SupervisedPart] = {}

    async def rooms(self) -> Mapping[str, int]:
        """Return the nodes that get engines, by Ray's id, and how many each.

        They are the last known ones while Ray does not answer.
        """
        if not self._config.rollout.actors_per_node:
            return {ANYWHERE: self._config.most_rollouts_in_flight}
        with contextlib.suppress(RunError):
            self._seen = await asyncio.to_thread(self._nodes)
        return _rollout(self._config).rooms(self._seen)

    def too_small(self) -> Sequence[str]:
        if not self._config.rollout.actors_per_node:
            return ()
        return _rollout(self._config).too_small(self._seen)

    async def refusal(self, actors: int) -> str:
        config = replace(self._config, rollout=replace(self._config.rollout, actors=actors))
        try:
            nodes = await asyncio.to_thread(self._nodes)
        except RunError as error:
            return str(error)
        faults = conflicts(config) or lacking(demands(config), nodes, config.cluster.address)
        faults = faults or await self._beyond_memory(actors)
        return "; ".join(fault.removeprefix("$.") for fault in faults)

    def start(self, name: str, place: str) -> SupervisedPart:
        self._started[name] = self._start(name, place)
        return self._started[name]

    async def _beyond_memory(self, actors: int) -> list[str]:
        """Return a sentence if this machine lacks memory for engines as large as the largest.

        Engines on a cluster that the run joined may be on other machines, and are not measured.
        """
        if self._config.cluster.address:
            return []
        statuses = await asyncio.gather(*(part.status() for part in self._started.values()))
        sizes = [size for each in statuses if each.pid and (size := _memory_of(each.pid))]
        added, free = actors - len(sizes), psutil.virtual_memory().available
        if not sizes or added * max(sizes) <= free:
            return []
        return [
            f"rollout.actors: {added} more engines need {added * max(sizes) / GB:.1f} GB of "
            f"memory, {max(sizes) / GB:.2f} GB each as the largest present one, and this machine "
            f"has {free / GB:.1f} GB available; ask for at most {len(sizes) + free // max(sizes)}"
        ]


def _rollout(config: RunConfig) -> Demand:
    (demand,) = (each for each in demands(config) if each.part == "rollout")
    return demand


def _memory_of(pid: int) -> int:
    """Return the bytes that a process shares with no other; 0 if it has ended."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).memory_full_info().uss
    return 0

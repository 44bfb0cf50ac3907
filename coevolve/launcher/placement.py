"""Turns the run file's section ``placement`` into Ray's options."""

from typing import Any

from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from protocols.config import PlacedPart, RunConfig


class Placement:
    """Ray's options for the actors of a run."""

    def __init__(self, config: RunConfig, node: str) -> None:
        """Place parts around the launcher's ``node``, by Ray's id."""
        self._config = config
        self._node = node

    def launcher(self) -> dict[str, Any]:
        """Return the options of an actor that has to be on the launcher's node."""
        if not self._config.cluster.address:
            return {}
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(self._node, soft=False)}

    def of(self, part: PlacedPart, node: str = "") -> dict[str, Any]:
        """Return the options of an actor of this kind of part, on this ``node`` if one is given."""
        placement = self._config.placement
        cpus = {"num_cpus": placement.cpus[part]} if part in placement.cpus else {}
        if node:
            return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)} | cpus
        return self._nodes(getattr(placement, part)) | cpus

    def _nodes(self, nodes: str) -> dict[str, Any]:
        if not self._config.cluster.address or nodes == "launcher":
            return self.launcher()
        if nodes == "any":
            return {"scheduling_strategy": "SPREAD"}
        label, value = nodes.split("=", 1)
        return {"label_selector": {label: value}}

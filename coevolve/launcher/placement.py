"""Turns the run file's section ``placement`` into Ray's options."""

from typing import Any

from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from protocols.config import PlaceConfig, RunConfig

PARTS = (
    "rollout",
    "evaluator",
    "learner",
    "simulator",
    "curriculum",
    "signals",
    "synthesizer",
    "validator",
)
"""Kinds of parts that have a place."""


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

    def of(self, part: str) -> dict[str, Any]:
        """Return the options of an actor of one of the kinds `PARTS`."""
        place: PlaceConfig = getattr(self._config.placement, part)
        return self._nodes(place.nodes) | ({"num_cpus": place.cpus} if place.cpus else {})

    def _nodes(self, nodes: str) -> dict[str, Any]:
        if not self._config.cluster.address or nodes == "launcher":
            return self.launcher()
        if nodes == "any":
            return {"scheduling_strategy": "SPREAD"}
        label, value = nodes.split("=", 1)
        return {"label_selector": {label: value}}

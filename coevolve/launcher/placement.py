"""Turns the run file's section ``placement`` into Ray's options."""

from collections.abc import Mapping, Sequence
from typing import Any

from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from protocols.config import RunConfig

NODE_LABEL = "ray.io/node-id"
"""Ray's own label of a node."""


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

    def of(self, part: str, node: str = "") -> dict[str, Any]:
        """Return the options of an actor of this kind of part, on this ``node`` if one is given."""
        placement = self._config.placement
        cpus = {"num_cpus": placement.cpus[part]} if part in placement.cpus else {}
        if node:
            return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)} | cpus
        return self._nodes(getattr(placement, part)) | cpus

    def ranks(self, count: int, gpus: float) -> Sequence[Mapping[str, Any]]:
        """Return the options of the learner's ranks, from rank 0; each reserves ``gpus``.

        They are placed as one group, on as few nodes as possible. If a node is lost, Ray moves the
        ranks that were there.
        """
        if count == 1:
            return [self.of("learner") | {"num_gpus": gpus}]
        cpus = self._config.placement.cpus.get("learner", 0.0)
        reserved = {name: each for name, each in (("CPU", cpus), ("GPU", gpus)) if each}
        group = placement_group(
            # Ray refuses a place without resources, and every node has a byte of memory.
            [dict(reserved) or {"memory": 1} for _ in range(count)],
            strategy="PACK",
            bundle_label_selector=[self._labels(self._config.placement.learner)] * count,
        )
        return [
            {
                "scheduling_strategy": PlacementGroupSchedulingStrategy(
                    group, placement_group_bundle_index=rank
                ),
                "num_cpus": cpus,
                "num_gpus": gpus,
            }
            for rank in range(count)
        ]

    def _labels(self, nodes: str) -> dict[str, str]:
        """Return the labels that a node needs; none if any node will do."""
        if not self._config.cluster.address or nodes == "any":
            return {}
        if nodes == "launcher":
            return {NODE_LABEL: self._node}
        label, value = nodes.split("=", 1)
        return {label: value}

    def _nodes(self, nodes: str) -> dict[str, Any]:
        if not self._config.cluster.address or nodes == "launcher":
            return self.launcher()
        if nodes == "any":
            return {"scheduling_strategy": "SPREAD"}
        return {"label_selector": self._labels(nodes)}

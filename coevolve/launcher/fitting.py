"""Checks that the nodes which the section ``placement`` allows have what the parts reserve.

Ray waits without end for a node that does not exist. The check refuses only what cannot fit: it
does not solve the puzzle of which process goes to which node.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from coevolve.launcher.nodes import Node
from protocols.config import PlacedPart, RunConfig, VllmEngine

ROUNDING = 1e-6
"""Ray counts resources in ten thousandths."""

PARTS: tuple[PlacedPart, ...] = get_args(PlacedPart)

LOWER = {
    "CPU": "lower placement.cpus",
    "GPU": "lower learner.devices, learner.gpus, rollout.actors or rollout.engine.gpus",
}


POOLED = ("rollout", "simulator")
"""Parts of several processes, even where there is only one."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What the processes of one part reserve."""

    part: PlacedPart
    processes: int
    nodes: str
    """Where they may be: ``launcher``, ``any`` or ``label=value``."""

    each: Mapping[str, float]
    """Reserved by each process, by resource."""

    per_node: int = 0
    """Maximum of processes on one node, and then ``processes`` is that on all; 0 if Ray decides."""

    def rooms(self, nodes: Sequence[Node]) -> dict[str, int]:
        """Return how many processes each allowed node gets, by its id, with a limit per node."""
        fits = {node.node_id: self._room(node) for node in nodes if self.allows(node)}
        return {node_id: room for node_id, room in fits.items() if room}

    def too_small(self, nodes: Sequence[Node]) -> list[str]:
        """Return a sentence for each allowed node without room for one process."""
        allowed = (node for node in nodes if self.allows(node))
        return [self._shortage(node) for node in allowed if not self._room(node)]

    def on(self, nodes: Sequence[Node]) -> "Demand":
        """Return the demand of the processes that start on these nodes, of one at least."""
        if not self.per_node:
            return self
        room = sum(self.rooms(nodes).values())
        return replace(self, processes=max(1, min(self.processes, room)))

    def _room(self, node: Node) -> int:
        fits = [
            math.floor(node.resources.get(resource, 0.0) / needed + ROUNDING)
            for resource, needed in self.each.items()
            if needed
        ]
        return min([self.per_node, *fits])

    def _shortage(self, node: Node) -> str:
        lacking = [
            f"{node.resources.get(resource, 0.0):g} of {needed:g} {resource}s"
            for resource, needed in self.each.items()
            if node.resources.get(resource, 0.0) + ROUNDING < needed
        ]
        remedy = ", or ".join(LOWER[resource] for resource, needed in self.each.items() if needed)
        return (
            f"the node {node.address} ({node.node_id[:8]}) gets no process of {self.part}, because "
            f"it has {' and '.join(lacking)} that each reserves; start Ray there again with more, "
            f"or {remedy}, or exclude the node by placement.{self.part}"
        )

    def total(self, resource: str) -> float:
        """Return what all processes reserve."""
        return self.processes * self.each[resource]

    def told(self, resource: str) -> str:
        """Return the part and what it reserves, as in ``rollout 2 x 4``."""
        pooled = f"{self.processes} x " if self.part in POOLED or self.processes > 1 else ""
        return f"{self.part} {pooled}{self.each[resource]:g}"

    def allows(self, node: Node) -> bool:
        """Return whether the processes may be on a node."""
        if self.nodes in ("any", "launcher"):
            return self.nodes == "any" or node.is_launchers
        label, value = self.nodes.split("=", 1)
        return node.labels.get(label) == value


def rank_gpus(config: RunConfig) -> float:
    """Return the GPUs of each rank of the learner; without a request, Ray hides all from it."""
    return config.learner.gpus if config.policy.device == "cuda" else 0.0


def engine_gpus(config: RunConfig) -> float:
    engine = config.rollout.engine
    return engine.gpus if isinstance(engine, VllmEngine) else 0.0


def demands(config: RunConfig) -> list[Demand]:
    """Return what each part of the run reserves. On a local cluster, every part may be anywhere."""
    processes = {
        "rollout": config.rollout.actors,
        "simulator": config.simulator.workers,
        "learner": config.learner.devices,
    }
    gpus = {
        "learner": rank_gpus(config),
        "rollout": engine_gpus(config),
        "evaluator": engine_gpus(config) if config.evaluator.engine == "own" else 0.0,
    }
    absent = () if config.synthesizes else ("synthesizer", "validator")
    return [
        Demand(
            part=part,
            processes=processes.get(part, 1),
            nodes=getattr(config.placement, part) if config.cluster.address else "any",
            each={"CPU": config.placement.cpus.get(part, 0.0), "GPU": gpus.get(part, 0.0)},
            per_node=config.rollout.actors_per_node if part == "rollout" else 0,
        )
        for part in PARTS
        if part not in absent
    ]


def gpus_line(asked: Sequence[Demand]) -> str:
    """Return how many GPUs the run reserves, and for which parts."""
    users = [each for each in asked if each.each["GPU"]]
    if not users:
        return "GPUs: none"
    total = sum(each.total("GPU") for each in users)
    return f"GPUs: {total:g} ({', '.join(each.told('GPU') for each in users)})"


def missing_labels(asked: Sequence[Demand], nodes: Sequence[Node], address: str) -> list[str]:
    """Return a sentence for each label that parts need and no node has."""
    labels = dict.fromkeys(each.nodes for each in asked if "=" in each.nodes)
    found: list[str] = []
    for label in labels:
        parts = [each for each in asked if each.nodes == label]
        if not any(parts[0].allows(node) for node in nodes):
            names = ", ".join(f"placement.{each.part}" for each in parts)
            found.append(
                f"{names}: needs a node with the label {label}, and the cluster at {address!r} has "
                f"none{_own_labels(nodes)}; start one with `ray start --address={address} --labels "
                f"{label}`, or change {names}"
            )
    return found


def unfit(asked: Sequence[Demand], nodes: Sequence[Node], address: str, resource: str) -> list[str]:
    """Return a sentence for each kind of nodes with too little for the parts confined to it.

    If a kind is refused, the wider ones are not examined.
    """
    placed = [(each, _allowed(each, nodes)) for each in asked if each.each[resource]]
    kinds = {each.nodes: allowed for each, allowed in placed if allowed}
    refused: list[frozenset[int]] = []
    sentences: list[str] = []
    for kind, places in sorted(kinds.items(), key=lambda item: len(item[1])):
        inside = [each for each, allowed in placed if allowed and allowed <= places]
        there = [nodes[n].resources.get(resource, 0.0) for n in sorted(places)]
        narrower = any(each <= places for each in refused)
        if not narrower and not _fits(inside, there, resource):
            refused.append(places)
            sentences.append(_too_little(inside, kind, there, address, resource))
    return sentences


def _allowed(demand: Demand, nodes: Sequence[Node]) -> frozenset[int]:
    return frozenset(n for n, node in enumerate(nodes) if demand.allows(node))


def _fits(inside: Sequence[Demand], there: Sequence[float], resource: str) -> bool:
    """Return whether the sum fits, and every part's processes, which cannot be divided, alone."""
    return sum(each.total(resource) for each in inside) <= sum(there) + ROUNDING and all(
        sum(_room(have, each.each[resource], resource) for have in there) >= each.processes
        for each in inside
    )


def _room(have: float, each: float, resource: str) -> int:
    """Return how many processes fit on a node; a share of a GPU has to be of one GPU."""
    if resource == "GPU" and each < 1.0:
        return math.floor(have + ROUNDING) * math.floor(1.0 / each + ROUNDING)
    return math.floor(have / each + ROUNDING)


def _too_little(
    inside: Sequence[Demand], kind: str, there: Sequence[float], address: str, resource: str
) -> str:
    needed = sum(each.total(resource) for each in inside)
    parts = ", ".join(each.told(resource) for each in inside)
    whole = f", and a process needs all of its {resource}s on one node" if len(there) > 1 else ""
    largest = math.ceil(max(each.each[resource] for each in inside))
    start = f"ray start --address={address} --num-{resource.lower()}s={largest}"
    match kind:
        case _ if not address:
            place = "this machine has"
            remedy = "name a cluster that has them (cluster.address)"
        case "launcher":
            place, remedy = "the launcher's node has", "place these parts on other nodes"
        case "any":
            place, remedy = f"the nodes of the cluster at {address!r} have", f"add one by `{start}`"
        case _:
            place = f"the nodes with the label {kind} have"
            remedy = f"add one by `{start} --labels {kind}`"
    have = " + ".join(f"{each:g}" for each in there)
    return (
        f"placement: the run reserves {needed:g} {resource}s ({parts}), and {place} {have}{whole}; "
        f"{remedy}, or {LOWER[resource]}"
    )


def _own_labels(nodes: Sequence[Node]) -> str:
    """Return the labels that users gave the nodes, in brackets; empty without any."""
    found = {
        f"{name}={value}"
        for node in nodes
        for name, value in node.labels.items()
        if not name.startswith("ray.io/")
    }
    return f" (its nodes have {', '.join(sorted(found))})" if found else ""

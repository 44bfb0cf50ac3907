"""Compares what a run requests from Ray with what the cluster has.

An actor that requests more than the cluster has would wait forever, so such a run is refused before
it starts.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from coevolve.launcher.fitting import LOWER, ROUNDING, Demand, demands, missing_labels, unfit
from coevolve.launcher.nodes import Node, cluster_nodes, local_node
from coevolve.runs.reach import listens, speaks_grpc
from protocols.config import PlacedPart, RunConfig
from protocols.errors import DependencyError

PER_CPU: Mapping[PlacedPart, int] = {"rollout": 2, "learner": 2, "simulator": 64}
"""Maximum number of processes that compute on CPUs, for each CPU."""

SETTINGS: Mapping[PlacedPart, str] = {
    "rollout": "rollout.actors",
    "learner": "learner.devices",
    "simulator": "simulator.workers",
}


def missing_devices(config: RunConfig) -> list[str]:
    """Return one sentence for each thing that the run requests and the cluster does not have.

    Without ``cluster.address`` the cluster is this machine.
    """
    address = config.cluster.address
    asked = demands(config)
    needed = frozenset(
        resource for resource in ("CPU", "GPU") if any(_counts(each, resource) for each in asked)
    )
    try:
        _check_address(address)
        if not needed and not address:
            return []
        nodes = cluster_nodes(address) if address else [local_node(needed)]
    except DependencyError as error:
        return [str(error)]
    return lacking(asked, nodes, address)


def lacking(demanded: Sequence[Demand], nodes: Sequence[Node], address: str) -> list[str]:
    asked = [each.on(nodes) for each in demanded]
    return [
        *missing_labels(asked, nodes, address),
        *(unfit(asked, nodes, address, "CPU") or _crowded(asked, nodes)),
        *(_too_few_gpus(asked, nodes, address) or unfit(asked, nodes, address, "GPU")),
    ]


def _counts(demand: Demand, resource: str) -> bool:
    """Return whether it matters how much of a resource the nodes have."""
    many = resource == "CPU" and demand.processes > _most(demand, 1.0)
    return many or bool(demand.each[resource])


def _most(demand: Demand, cpus: float) -> int:
    """Return how many processes of a part may compute on CPUs."""
    each = PER_CPU.get(demand.part, 0)
    return int(each * max(1.0, cpus)) if each and not demand.each["GPU"] else demand.processes


def _crowded(asked: Sequence[Demand], nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a sentence for each part of which too many processes would compute on CPUs."""
    for each in asked:
        cpus = sum(node.resources.get("CPU", 0.0) for node in nodes if each.allows(node))
        most = _most(each, cpus)
        if each.processes > most:
            yield (
                f"{SETTINGS[each.part]}: {each.processes} processes that compute on CPUs are more "
                f"than {PER_CPU[each.part]} for each of the {cpus:g} CPUs that the nodes have; ask "
                f"for at most {most}"
            )


def _check_address(address: str) -> None:
    """Refuse an address where no Ray cluster can be. Raises DependencyError."""
    if address in ("", "auto"):
        return
    if not re.fullmatch(r".+:\d+", address):
        raise DependencyError(
            f"cluster.address: needs HOST:PORT of the head of a Ray cluster, found {address!r}; "
            "the command `ray start --head` prints it"
        )
    if not listens(address):
        raise DependencyError(
            f"cluster.address: needs a running Ray cluster, and nothing listens at {address!r}; "
            "start one with `ray start --head`, or set cluster.address=local for one of the run's "
            "own"
        )
    if os.environ.get("RAY_USE_TLS", "0") == "0" and not speaks_grpc(address):
        raise DependencyError(
            f"cluster.address: needs the head of a Ray cluster, and what listens at {address!r} is "
            "none; give the address that `ray start --head` printed"
        )


def _too_few_gpus(asked: Sequence[Demand], nodes: Sequence[Node], address: str) -> list[str]:
    """Return a sentence if all nodes together have too few GPUs."""
    needed = sum(each.total("GPU") for each in asked)
    present = sum(node.resources.get("GPU", 0.0) for node in nodes)
    if needed <= present + ROUNDING:
        return []
    parts = ", ".join(each.told("GPU") for each in asked if each.each["GPU"])
    if address:
        place = f"the cluster at {address!r} has {present:g}"
        remedy = "start more nodes"
    else:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        shown = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible!r}"
        place = f"torch finds {present:g} on this machine{shown}"
        remedy = "name a cluster that has them (cluster.address)"
    return [
        f"the run needs {needed:g} {'GPU' if needed == 1 else 'GPUs'} ({parts}), and {place}; "
        f"{remedy}, or {LOWER['GPU']}; without GPUs set policy.device=cpu and "
        "rollout.engine.gpus=0"
    ]

"""The machines on which a run's parts can be placed, and what they have."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from coevolve.launcher.interrupts import handlers_kept
from protocols.errors import DependencyError, RunError


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine of a cluster."""

    node_id: str
    """Ray's id; empty for this machine before it has a cluster."""

    resources: Mapping[str, float]
    """All that it has, also what is in use, by Ray's names, such as CPU and GPU."""

    labels: Mapping[str, str]
    is_launchers: bool
    """Whether this process is on it."""

    address: str = ""
    """As Ray reaches it; empty as ``node_id``."""


def cluster_nodes(address: str) -> list[Node]:
    """Join a running cluster, and return its living nodes. Raises DependencyError."""
    # Imported here, so that commands that start no run do not load Ray.
    import ray

    from coevolve.launcher.cluster import use_token
    from coevolve.launcher.session import JOIN_REMEDY, reaching

    with handlers_kept():
        try:
            use_token()
            with reaching(address):
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            return living_nodes()
        except Exception as error:
            raise DependencyError(
                f"cluster.address: Ray cannot reach the cluster at {address!r}: "
                f"{' '.join(str(error).split())}; {JOIN_REMEDY}"
            ) from error
        finally:
            cast("Callable[[], None]", ray.shutdown)()


def living_nodes() -> list[Node]:
    """Return the living nodes of the cluster that this process has joined. Raises RunError."""
    import ray

    try:
        own = ray.get_runtime_context().get_node_id()
        found = cast("list[dict[str, Any]]", ray.nodes())
    except Exception as error:  # Ray raises errors of many kinds if its head is gone
        raise RunError(
            f"Ray does not say which nodes are alive: {' '.join(str(error).split())}"
        ) from error
    return [_node(each, own) for each in found if each["Alive"]]


def local_node(resources: frozenset[str]) -> Node:
    """Return this machine as the node of a local cluster, with the named resources only."""
    ways = {"CPU": _local_cpus, "GPU": _local_gpus}
    has = {name: ways[name]() for name in resources}
    return Node(node_id="", resources=has, labels={}, is_launchers=True)


def _node(found: Mapping[str, Any], own: str) -> Node:
    return Node(
        node_id=found["NodeID"],
        resources=found["Resources"],
        labels=found["Labels"],
        is_launchers=found["NodeID"] == own,
        address=found["NodeManagerAddress"],
    )


def _local_gpus() -> float:
    # This import takes seconds; only runs on GPUs need it.
    import torch

    return torch.cuda.device_count()


def _local_cpus() -> float:
    """Return the CPUs that Ray gives a local cluster: in a container, those of the container."""
    from ray._private.utils import get_num_cpus

    return get_num_cpus()

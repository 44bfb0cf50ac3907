"""Compares the GPUs that a run requests from Ray with those that the cluster has.

An actor that requests more GPUs than the cluster has would wait forever, so such a run is refused
before it starts.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import cast

from coevolve.launcher.interrupts import handlers_kept
from coevolve.runs.reach import listens
from protocols.config import RunConfig, VllmEngine
from protocols.errors import DependencyError


def learner_gpus(config: RunConfig) -> int:
    """Return the number of GPUs of the learner; without a request, Ray hides all GPUs from it."""
    return config.learner.devices if config.policy.device == "cuda" else 0


def engine_gpus(config: RunConfig) -> float:
    """Return the GPUs of each process with a sampling engine."""
    engine = config.rollout.engine
    return engine.gpus if isinstance(engine, VllmEngine) else 0.0


def check_devices(config: RunConfig) -> None:
    """Check that the cluster is reachable and has as many GPUs as the run requests.

    Without ``cluster.address`` the cluster is this machine. Raises DependencyError.
    """
    address = config.cluster.address
    _check_address(address)
    requested = {
        "learner": float(learner_gpus(config)),
        f"rollout {config.rollout.actors} x {engine_gpus(config):g}": (
            config.rollout.actors * engine_gpus(config)
        ),
        "evaluator": engine_gpus(config),
    }
    needed = sum(requested.values())
    if not needed:
        return
    present = cluster_gpus(address) if address else local_gpus()
    if needed > present:
        raise DependencyError(_too_few(requested, present, address))


def local_gpus() -> float:
    """Return the number of GPUs of a local cluster, as seen by torch."""
    # This import takes seconds; only runs on GPUs need it.
    import torch

    return torch.cuda.device_count()


def cluster_gpus(address: str) -> float:
    """Return the number of GPUs of a running cluster. Raises DependencyError."""
    # Imported here, so that commands that start no run do not load Ray.
    import ray

    from coevolve.launcher.cluster import use_token

    with handlers_kept():
        try:
            use_token()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            found = cast("Mapping[str, float]", ray.cluster_resources())
        except Exception as error:
            raise DependencyError(
                f"cluster.address: Ray cannot reach the cluster at {address!r}: "
                f"{' '.join(str(error).split())}"
            ) from error
        finally:
            cast("Callable[[], None]", ray.shutdown)()
    return found.get("GPU", 0.0)


def _check_address(address: str) -> None:
    """Refuse an address where nothing listens."""
    if re.fullmatch(r".+:\d+", address) and "://" not in address and not listens(address):
        raise DependencyError(
            f"cluster.address: needs a running Ray cluster, and nothing listens at {address!r}; "
            "start one with `ray start --head`, or leave it empty for a local one"
        )


def _too_few(requested: Mapping[str, float], present: float, address: str) -> str:
    parts = ", ".join(
        part if " x " in part else f"{part} {gpus:g}" for part, gpus in requested.items() if gpus
    )
    if address:
        place = f"the cluster at {address!r} has {present:g}"
        remedy = "start more nodes"
    else:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        shown = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible!r}"
        place = f"torch finds {present:g} on this machine{shown}"
        remedy = "name a cluster that has them (cluster.address)"
    needed = sum(requested.values())
    return (
        f"the run needs {needed:g} {'GPU' if needed == 1 else 'GPUs'} ({parts}), and {place}; "
        f"{remedy}, or lower learner.devices, rollout.actors or rollout.engine.gpus; without GPUs "
        "set policy.device=cpu and rollout.engine.gpus=0"
    )

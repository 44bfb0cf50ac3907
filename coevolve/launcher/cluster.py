"""The Ray cluster of a run: one that is there, or a local one that ends with this process."""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any, cast

import ray

from coevolve.environments.cache_folder import CACHE_VARIABLE, passed_on
from coevolve.runs.directory import RunDirectory
from coevolve.runs.guard import guarded
from protocols.config import RunConfig
from protocols.errors import RunError

WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""One thread a process: a run's processes share the machine."""

UNOBSERVED = {
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
}
"""A local cluster keeps no statistics of its own, which only Ray's dashboard would show (they make
every call of an actor a sixth dearer), and looks for new logs less often."""

ALONE = threading.Lock()
"""Is held while a run of this process has Ray."""


@contextlib.contextmanager
def cluster(config: RunConfig, directory: RunDirectory) -> Generator[str]:
    """Join the configured Ray cluster, or start a local one that ends with this process.

    Yields its address. Raises RunError where this process has another run or uses Ray itself.
    """
    address = config.cluster.address
    # Other machines have a home of their own, but look where the user says.
    named = passed_on() if CACHE_VARIABLE in os.environ else {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone())
        stack.enter_context(_environment(local=not address))
        if not address:
            stack.enter_context(guarded())
        try:
            context = ray.init(
                address=address or "local",
                namespace=directory.identity().namespace,
                include_dashboard=False if not address else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": WORKER_ENVIRONMENT | named} if address else None,
            )
        except Exception as error:  # Ray raises bare ones where a node does not start in time
            place = f"the cluster at {address!r}" if address else "a local cluster"
            raise RunError(f"Ray cannot reach or start {place}: {error}") from error
        stack.callback(cast("Callable[[], None]", ray.shutdown))
        information = cast("Any", context).address_info
        yield information["gcs_address"]


@contextlib.contextmanager
def _alone() -> Generator[None]:
    """Be the one user of Ray, and the one who changes the environment, in this process."""
    if not ALONE.acquire(blocking=False):
        raise RunError(
            "this process carries out another run, and Ray allows one at a time; wait for its end, "
            "or start this run in a process of its own"
        )
    try:
        if ray.is_initialized():
            raise RunError(
                "this process uses Ray already, and a run needs it for itself; call ray.shutdown() "
                "before, or start the run in a process of its own"
            )
        yield
    finally:
        ALONE.release()


@contextlib.contextmanager
def _environment(*, local: bool) -> Generator[None]:
    """Set what Ray and the processes below this one are to find in their environment."""
    before = dict(os.environ)
    os.environ.update(WORKER_ENVIRONMENT)
    # At its usual level Ray's core warns that actors whose arguments hold handles cannot restart;
    # they do, and the tests kill them.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Workers that may not keep compiled files compile torch and transformers at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name, value in UNOBSERVED.items() if local else ():
        os.environ.setdefault(name, value)
    try:
        yield
    finally:
        _restore(before)


def _restore(before: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)

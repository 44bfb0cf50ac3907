"""The Ray cluster of a run: an existing one, or a local one that ends with this process."""

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import ray
from ray._private import node
from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from ray.job_config import JobConfig

from coevolve.base.import_guard import code_folder, is_guarded
from coevolve.environments.cache_folder import CACHE_VARIABLE, compiled_kernels, passed_on
from coevolve.environments.registry import environment_of
from coevolve.history.directory import RunDirectory
from coevolve.launcher import jobs, session, working_folder
from coevolve.launcher.forking import forking
from coevolve.launcher.native_errors import held_back
from coevolve.launcher.vital import Vital, vital_processes
from coevolve.parts.logs import FOLDER
from coevolve.runs.guard import guarded
from coevolve.runs.reach import listens
from protocols.config import RunConfig
from protocols.errors import LostError, RunError

WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""One thread per process, because a run's processes share the machine."""

LOCAL_SETTINGS = {
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
}
"""Settings of a local cluster. Ray's statistics are off: only its dashboard shows them, and they
make every actor call a sixth slower. Ray also looks for new logs less often."""

ANNOUNCEMENT = b"Set ray log level from environment variable"
"""Ray's core writes this line to standard error because of `RAY_BACKEND_LOG_LEVEL`."""

RAY_LOCK = threading.Lock()
"""Held while a run in this process uses Ray."""


LOOK_S = 2.0
"""Seconds between two looks at the cluster, and between the two failures that count as a loss."""

NOTICE_S = 1.0
"""Seconds for the end of a process on this machine to be noticed."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The cluster of a run, as this process has joined it."""

    address: str
    """Of the cluster's head."""

    socket: str
    """Unix socket of Ray's process on this machine."""

    processes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Names and ids of the processes that a local cluster cannot do without."""

    withheld: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets of the launcher's environment that Ray's processes do not have, by variable."""

    @property
    def notice_s(self) -> float:
        """Seconds within which `watched` notices a loss."""
        return NOTICE_S if self.processes else NOTICE_S + 2 * LOOK_S

    @contextlib.contextmanager
    def watched(self, on_loss: Callable[[str], None]) -> Generator[None]:
        """Call ``on_loss`` in a thread of its own if the cluster is lost; give the reason.

        A thread, because calls of a lost cluster may block an event loop for minutes.
        """
        ended = threading.Event()
        threading.Thread(
            target=self._watch, args=(ended, on_loss), name="cluster", daemon=True
        ).start()
        try:
            yield
        finally:
            ended.set()

    def _watch(self, ended: threading.Event, on_loss: Callable[[str], None]) -> None:
        seen = ""
        vital = Vital(self.processes)
        try:
            while not ended.is_set():
                fault = self._fault()
                reason = fault if fault == seen else ""
                if reason := reason or vital.ended(LOOK_S):
                    if not ended.is_set():
                        on_loss(reason)
                    return
                seen = fault
        finally:
            vital.close()

    def _fault(self) -> str:
        if not listens(self.address):
            return f"the head of the Ray cluster at {self.address} is gone"
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(self.socket)
            except OSError:
                return "Ray's process on this machine (raylet) is gone"
        return ""


@contextlib.contextmanager
def cluster(
    config: RunConfig,
    directory: RunDirectory,
    keys: Collection[str] = (),
    modules: Sequence[str] = (),
) -> Generator[Joined]:
    """Join the configured Ray cluster, or start a local one that ends with this process.

    The processes of a local one do not get the variables in ``keys``, nor other secrets. With
    ``cluster.fork``, and a learner on the CPU, they have imported ``modules`` when they start.

    Raises RunError if this process has another run or already uses Ray, and LostError if Ray does
    not start or cannot be reached.
    """
    address = config.cluster.address
    with (
        _exclusive_ray(),
        _environment(local=not address),
        _existing(config, directory)
        if address
        else _own(config, directory, keys, modules) as joined,
    ):
        session.hide_token()
        yield joined


@contextlib.contextmanager
def _existing(config: RunConfig, directory: RunDirectory) -> Generator[Joined]:
    """Join the configured cluster for the block."""
    address = config.cluster.address
    # Other machines have other home folders, so pass on only a cache folder that the user set.
    named = passed_on() if CACHE_VARIABLE in os.environ else {}
    use_token()
    with (
        session.reaching(address),
        _connected(
            directory,
            f"the cluster at {address!r}",
            address=address,
            runtime_env=runtime_environment(config, named),
            job_config=import_path(config),
        ) as information,
    ):
        yield _joined(information)


@contextlib.contextmanager
def _own(
    config: RunConfig, directory: RunDirectory, keys: Collection[str], modules: Sequence[str]
) -> Generator[Joined]:
    """Start a cluster for the block, on this machine and of this user alone."""
    interface = config.cluster.interface
    place = {"_node_ip_address": session.address_of(interface)} if interface else {}
    with (
        session.session_folder(directory.path) as folder,
        contextlib.nullcontext() if interface else session.on_loopback(),
        _without_monitors(),
        session.sessions_of_their_own(),
        contextlib.ExitStack() as started,
    ):
        named = (*config.cluster.variables, *environment_of(config).variables)
        with session.withheld(named, keys) as secrets:
            started.enter_context(guarded(folder))
            # What an import has asked a GPU's driver may not survive a fork.
            if config.cluster.fork and config.policy.device == "cpu":
                started.enter_context(forking(folder, modules))
            connected = _connected(
                directory,
                "a local cluster",
                address="local",
                job_config=import_path(),
                include_dashboard=False,
                _temp_dir=str(folder / session.INNER),
                **place,
            )
            information = started.enter_context(connected)
        yield _joined(information, secrets, vital_processes(_started()))


@contextlib.contextmanager
def _connected(directory: RunDirectory, what: str, **options: Any) -> Generator[dict[str, str]]:
    """Use Ray with these options in the block; yield what it says of addresses.

    Raises LostError.
    """
    try:
        with held_back(directory.path / FOLDER / "ray.log", ANNOUNCEMENT):
            context = ray.init(
                namespace=directory.identity().namespace,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **options,
            )
    except Exception as error:  # Ray raises a bare Exception if a node starts too late
        raise LostError(f"Ray cannot reach or start {what}: {error}") from error
    try:
        yield cast("Any", context).address_info
    except LostError:
        _kill_started()
        raise
    finally:
        ray.shutdown()


def _joined(
    information: Mapping[str, str],
    withheld: Mapping[str, str] | None = None,
    processes: Mapping[str, int] | None = None,
) -> Joined:
    return Joined(
        address=information["gcs_address"],
        socket=information["raylet_socket_name"],
        processes=dict(processes or {}),
        withheld=dict(withheld or {}),
    )


def _started() -> dict[str, int]:
    """Return the processes that Ray has just started here, which its public API does not say."""
    return {kind: each[0].process.pid for kind, each in _node().all_processes.items()}


def _kill_started() -> None:
    """Kill what is left of a lost cluster that this process started.

    `ray.shutdown` waits up to a second for each of these processes to end by itself.
    """
    if _node() is not None:
        _node().kill_all_processes(check_alive=False, allow_graceful=False)


def _node() -> Any:
    """Return what Ray has of this machine; None if it was not started."""
    return cast("Any", ray)._private.worker._global_node


@contextlib.contextmanager
def _without_monitors() -> Generator[None]:
    """Start no monitors with a cluster in the block.

    One asks for more machines, the other sends logs to the driver, and a run does neither. Both
    cost a second of CPU time at each start. Ray has no setting for that.
    """

    def start_nothing(self: node.Node) -> None:
        del self

    kind = cast("Any", node.Node)
    before = kind.start_monitor, kind.start_log_monitor
    kind.start_monitor = kind.start_log_monitor = start_nothing
    try:
        yield
    finally:
        kind.start_monitor, kind.start_log_monitor = before


def use_token() -> None:
    """Show Ray's token, if this machine has one: Ray protects the clusters that it starts."""
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def runtime_environment(config: RunConfig, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what the processes of a joined cluster start with, on every node.

    An environment of one's own comes from the working folder, so every node gets a copy of it. In
    a Ray job, what the job's own runtime environment says is left out, because Ray takes both
    together and lets neither replace the other.
    """
    job = jobs.runtime_environment()
    own = WORKER_ENVIRONMENT | dict(variables)
    submitted = job.get("env_vars", {})
    variables = {name: value for name, value in own.items() if name not in submitted}
    return {"env_vars": variables, **working_folder.runtime_environment(config)}


def import_path(config: RunConfig | None = None) -> JobConfig:
    """Return the job's configuration, by which workers import from the folder of the user's code.

    By itself, Ray lets all workers import from the working folder first, if they do not get a copy
    of a folder. A job of Ray's own client is spared that, and differs in nothing else.
    """
    if not is_guarded() or (config and working_folder.runtime_environment(config)):
        return JobConfig()
    folder = code_folder()
    return JobConfig(_client_job=True, _py_driver_sys_path=[str(folder)] if folder else [])


@contextlib.contextmanager
def _exclusive_ray() -> Generator[None]:
    """Reserve Ray and the environment variables of this process. Raises RunError if in use."""
    if not RAY_LOCK.acquire(blocking=False):
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
        RAY_LOCK.release()


@contextlib.contextmanager
def _environment(*, local: bool) -> Generator[None]:
    """Set the environment variables that Ray and its processes inherit; restore them afterwards."""
    before = dict(os.environ)
    os.environ.update(WORKER_ENVIRONMENT)
    # By default Ray's core warns that actors with handles in their arguments cannot restart. The
    # warning is wrong: tests kill such actors, and they restart.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # With this variable, workers would compile torch and transformers again at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if local:
        os.environ.pop(jobs.JOB, None)  # The folder of a job is in the cluster of the job.
        for name, value in (LOCAL_SETTINGS | compiled_kernels()).items():
            os.environ.setdefault(name, value)
    try:
        yield
    finally:
        _restore(before)


def _restore(before: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)

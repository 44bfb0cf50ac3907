"""The processes of a local Ray cluster that a run cannot do without.

Ray's raylet ends if one of its two agents ends, and Ray restarts none of them. The kernel reports
the end of a process at once, so the one that ended first is the cause.
"""

import contextlib
import os
import select
from collections.abc import Generator, Mapping

import psutil

AGENTS: Mapping[str, tuple[str, str]] = {
    "Ray's runtime-env agent": ("ray::RuntimeEnvAgent", "runtime_env/agent/main.py"),
    "Ray's dashboard agent": ("ray::DashboardAgent", "dashboard/agent.py"),
}
"""Child of the raylet -> what its command line has, once it has renamed itself and before."""

SERVERS: Mapping[str, str] = {
    "Ray's control service (GCS)": "gcs_server",
    "Ray's raylet": "raylet",
}
"""Child of the launcher -> Ray's name of it."""


class Vital:
    """The vital processes of the local cluster that this process started; none for another one."""

    def __init__(self, found: Mapping[str, int]) -> None:
        """Watch ``found``: names, in the order of cause and effect, and process ids."""
        self._names = dict(_opened(found))

    def ended(self, wait_s: float) -> str:
        """Return the sentence on the first process that ended, or nothing after ``wait_s``."""
        poll = select.poll()
        for descriptor in self._names:
            poll.register(descriptor, select.POLLIN)
        gone = {descriptor for descriptor, _ in poll.poll(1000 * wait_s)}
        first = next((name for each, name in self._names.items() if each in gone), "")
        return f"{first} ended, and the run's local Ray cluster with it" if first else ""

    def close(self) -> None:
        """Watch no more."""
        for descriptor in self._names:
            os.close(descriptor)
        self._names = {}


def vital_processes(started: Mapping[str, int]) -> dict[str, int]:
    """Return the vital processes of a local cluster by name, in the order of cause and effect.

    Args:
        started: The ids of the processes that Ray started, by Ray's names.
    """
    servers = {name: started[kind] for name, kind in SERVERS.items() if kind in started}
    raylet = started.get(SERVERS["Ray's raylet"])
    return ({} if raylet is None else _agents(raylet)) | servers


def _agents(raylet: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for child in psutil.Process(raylet).children():
        with contextlib.suppress(psutil.Error):
            words = " ".join(child.cmdline())
            for name, signs in AGENTS.items():
                if any(sign in words for sign in signs):
                    found[name] = child.pid
    return found


def _opened(found: Mapping[str, int]) -> Generator[tuple[int, str]]:
    """Yield a descriptor and the name of each process that lives; older kernels have none."""
    for name, pid in found.items():
        with contextlib.suppress(OSError):
            yield os.pidfd_open(pid), name

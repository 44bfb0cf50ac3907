"""The processes of a run under attack, by kind; orphans stay children of this process."""

import contextlib
import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from coevolve.parts import template

PR_SET_CHILD_SUBREAPER = 36

RAY = {
    "gcs_server": "GCS",
    "raylet/raylet": "raylet",
    "autoscaler/_private/monitor.py": "Ray's monitor",
    "dashboard/dashboard.py": "Ray's dashboard",
    "log_monitor.py": "Ray's log monitor",
    "ray::DashboardAgent": "Ray's dashboard agent",
    "dashboard/agent.py": "Ray's dashboard agent",
    "ray::RuntimeEnvAgent": "Ray's runtime-env agent",
    "runtime_env/agent/main.py": "Ray's runtime-env agent",
}
"""What a command line holds -> kind."""

PARTS = (
    "store",
    "curriculum",
    "rollout",
    "simulator",
    "signals",
    "synthesizer",
    "validator",
    "learner",
    "evaluator",
)

ORPHAN = "orphan"
"""A process of a Ray cluster that was lost; it ends soon."""

KEPT = (*PARTS, "template")
"""Kinds of processes that the run starts again."""

LOSSES = (
    "launcher",
    "GCS",
    "raylet",
    "Ray's dashboard agent",
    "Ray's runtime-env agent",
    "guard and launcher",
    "keeper",
)
"""Kinds whose end is the end of the run's cluster or of its process."""


@dataclass(frozen=True)
class Living:
    """A process that lives."""

    pid: int
    kind: str
    started: bool
    """Whether a part has been made, or a template has imported all; True for other processes."""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Population:
    """All descendants of this process."""

    def __init__(self) -> None:
        self._own = psutil.Process()

    def look(self, keeper: int | None) -> list[Living]:
        """Return who lives, and bury dead orphans; ``keeper`` is the child that others wait for."""
        found: list[Living] = []
        for process in self._own.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.status() == psutil.STATUS_ZOMBIE:
                    self._bury(process, keeper)
                    continue
                words = process.cmdline()
                kind = kind_of(words, process.pid == keeper)
                if kind in RAY.values() and process.ppid() == self._own.pid:
                    kind = ORPHAN
                started = process.name() == template.NAME if kind == "template" else made(words)
                found.append(Living(process.pid, kind, started))
        return found

    def _bury(self, process: psutil.Process, keeper: int | None) -> None:
        if process.pid != keeper and process.ppid() == self._own.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def made(words: list[str]) -> bool:
    """Return whether a process's title says that its actor has been made."""
    return not (words and words[0].startswith("ray::") and "__init__" in words[0])


def kind_of(words: list[str], is_keeper: bool) -> str:
    """Return the kind of process that has this command line."""
    line = " ".join(words)
    if is_keeper:
        return "keeper"
    if "coevolve.runs.guard" in line:
        return "guard"
    if "coevolve.parts.template" in line:
        return "template"
    for part in PARTS:
        if line.startswith(f"ray::{part.capitalize()}Shell"):
            return part
    found = next((kind for sign, kind in RAY.items() if sign in line), None)
    if found is None and "-m coevolve " in line:
        return "launcher"
    return found or ("idle worker" if "ray::" in line or "default_worker" in line else "child")


def by_kind(living: list[Living]) -> Mapping[str, list[Living]]:
    """Return the processes of each kind."""
    found: dict[str, list[Living]] = {}
    for each in living:
        found.setdefault(each.kind, []).append(each)
    return found

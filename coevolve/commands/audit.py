"""Audits a run: its journal, what it left behind, and, if asked to, its weights."""

import asyncio
import sys
from pathlib import Path

import msgspec
import psutil

from coevolve.commands.replay import records, replay
from coevolve.history.directory import RunDirectory
from coevolve.journal.reader import run_reader
from coevolve.models.atomic_folder import PARTIAL
from coevolve.runs import sessions
from coevolve.runs.audit import Audit, audit
from coevolve.runs.starting import LOCK_FILE, is_launched


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """An audited run."""

    journal: Audit
    replayed: int
    """Steps that were taken again; 0 if none were."""

    faults: tuple[str, ...]
    """Everything that is wrong, one sentence each."""


def examine(directory: RunDirectory, *, again: bool) -> Examined:
    """Audit a run, and with ``again`` take every step again. Raises CoevolveError."""
    return asyncio.run(_examine(directory, again=again))


async def _examine(directory: RunDirectory, *, again: bool) -> Examined:
    found = await audit(run_reader(directory.path))
    faults = [*found.faults, *left_behind(directory)]
    replayed = 0
    if again:
        config, history = records(directory.path)
        async for step in replay(config, directory.path, history):
            replayed += 1
            if not step.equal:
                faults.append(f"step {step.step}: a replay leads to other weights")
    return Examined(journal=found, replayed=replayed, faults=tuple(faults))


def show(found: Examined, *, as_json: bool) -> None:
    """Print what was found, as lines or as JSON."""
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    journal = found.journal
    state = "finished" if journal.finished else "not finished"
    lines = [
        f"{journal.records} records of {journal.starts} starts, {journal.deleted} deleted by "
        f"retention; the run has {state}",
        f"{journal.requests} rollout requests, {journal.open_requests} without an answer yet",
        f"{journal.steps} steps and {journal.versions} policy versions",
        *([f"{found.replayed} steps taken again"] if found.replayed else []),
        *(f"FAULT: {fault}" for fault in found.faults),
        f"{len(found.faults)} faults",
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def left_behind(directory: RunDirectory) -> list[str]:
    """Return a sentence for each thing that is left; nothing while the run is running."""
    if is_launched(directory):
        return []
    return [*_of_ray(directory), *_unfinished(directory.path)]


def _of_ray(directory: RunDirectory) -> list[str]:
    """Return what is left of the Ray session of the run's last launcher."""
    launcher = sessions.last_launcher(directory.path / LOCK_FILE)
    if not launcher or psutil.pid_exists(launcher):
        return []
    found = sessions.holders(launcher)
    return [f"process {each.pid} of Ray outlived its run" for each in found]


def _unfinished(run: Path) -> list[str]:
    """Return what is left of files and folders that were being written."""
    found = [*run.rglob(f"{PARTIAL}*"), *run.glob("*.new")]
    return [f"{path}: is left of an interrupted write" for path in sorted(found)]

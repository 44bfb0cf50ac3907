"""What the processes of a run left on this machine that the run's end should have removed."""

from pathlib import Path

import psutil

from coevolve.models.atomic_folder import PARTIAL
from coevolve.runs import sessions
from coevolve.runs.directory import RunDirectory
from coevolve.runs.starting import LOCK_FILE, is_launched


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

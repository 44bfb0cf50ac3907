"""Makes a run's folder from a copy at ``store.copies``, on any machine."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from coevolve.models.atomic_folder import begin_folder, finish_folder, partial_of
from coevolve.runs.copies.copy_folder import CopyFolder, CopyManifest
from protocols.errors import CopyError, RunError


def restore(url: str, path: Path, say: Callable[[str], None]) -> None:
    """Make the run's folder ``path`` from the newest copy below ``url`` that is intact.

    ``say`` gets a sentence about what the copy holds, and one for each damaged copy. The folder
    appears when it is complete and every file has its digest.

    Raises:
        RunError: The folder exists already, or cannot be written.
        CopyError: There is no intact copy.
        DependencyError: A package for ``url`` is not installed.
    """
    if path.exists():
        raise RunError(
            f"{path}: exists already, and a copy is restored into a new folder; leave --from out "
            "to continue it, or move it away"
        )
    folder = CopyFolder(url, path.name)
    copies = folder.manifests()
    if not copies:
        raise CopyError(
            f"{folder.url}: holds no complete copy of a run; give the run's name, and the place "
            "that its store.copies named"
        )
    _restore_newest(folder, copies, path, say)


def _restore_newest(
    folder: CopyFolder, copies: list[CopyManifest], path: Path, say: Callable[[str], None]
) -> None:
    faults: list[str] = []
    for copy in copies:
        try:
            _fetch(folder, copy, path)
        except CopyError as error:
            faults.append(str(error))
            say(f"{error}; copy {copy.number} is not used")
            continue
        say(_holds(folder, copy, path))
        return
    raise CopyError(f"{folder.url}: holds no intact copy: {'; '.join(faults)}")


def _fetch(folder: CopyFolder, copy: CopyManifest, path: Path) -> None:
    """Write the copy's files to ``path``, all or none. Raises CopyError and RunError."""
    try:
        folder.fetch(copy, begin_folder(path))
        finish_folder(path)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be written: {error}; free disk space, or name another folder by --runs"
        ) from error
    finally:
        shutil.rmtree(partial_of(path), ignore_errors=True)


def _holds(folder: CopyFolder, copy: CopyManifest, path: Path) -> str:
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(copy.made_ns / 1e9))
    return (
        f"{path}: restored from copy {copy.number} of {folder.url}, made {made}, with "
        f"{copy.step} steps and {copy.records} records; all that the run did later is lost, and "
        f"it continues with step {copy.step + 1}"
    )

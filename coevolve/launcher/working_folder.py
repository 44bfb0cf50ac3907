"""The copy of the folder of one's own class that other nodes get, usually the working folder.

Ray makes it. It leaves out what `LEFT_BEHIND` names, and what `.gitignore` and `.rayignore` name,
data files among them.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.base.foreign import plain
from coevolve.base.import_guard import code_folder
from coevolve.launcher import jobs
from protocols.config import RunConfig
from protocols.errors import ConfigError

LEFT_BEHIND = ("runs/", ".venv/", ".git/", "__pycache__/")
"""Folders of the working folder that other nodes do not get."""

ALL_FILES = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"
"""Variable with which Ray copies what `.gitignore` names, too."""

MAX_NAMED = 3


def is_copied(config: RunConfig) -> bool:
    """Return whether other nodes get a copy of the working folder from the run, and not the job."""
    return bool(config.cluster.address) and bool(runtime_environment(config))


def runtime_environment(config: RunConfig) -> Mapping[str, Any]:
    """Return the part of Ray's runtime environment that copies the class's folder, if one does."""
    if not _own_classes(config) or _of_job() or (folder := code_folder()) is None:
        return {}
    return {"working_dir": str(folder), "excludes": list(LEFT_BEHIND)}


def refuse_left_out(config: RunConfig) -> None:
    """Refuse a run whose class or whose files other nodes would not get. Raises ConfigError."""
    if not is_copied(config):
        return
    folder = code_folder() or Path.cwd()
    copied = _copied(folder, LEFT_BEHIND)
    for setting, path in _needed(config):
        if path not in copied:
            named = plain(str(path.relative_to(folder)))
            raise ConfigError(
                f"{setting}: other nodes get a copy of the working folder without what .gitignore "
                f"and .rayignore name and without {', '.join(LEFT_BEHIND)}; {named} is "
                f"among that. Name it there no longer, or set {ALL_FILES}=1"
            )


def warning(config: RunConfig) -> str:
    """Return a sentence about files that other nodes do not get; empty if they get all."""
    if not is_copied(config):
        return ""
    folder = code_folder() or Path.cwd()
    every = _files(folder)
    lacking = sorted(every - _copied(folder, LEFT_BEHIND))
    if not lacking:
        return ""
    named = ", ".join(plain(str(each.relative_to(folder))) for each in lacking[:MAX_NAMED])
    more = ", ..." if len(lacking) > MAX_NAMED else ""
    return (
        f"other nodes do not get {len(lacking)} files of the working folder, because .gitignore or "
        f".rayignore names them: {named}{more}; if your class reads one, name it there no longer, "
        f"or set {ALL_FILES}=1"
    )


def _own_classes(config: RunConfig) -> dict[str, str]:
    """Return setting -> import path of the user's own classes that the run uses."""
    named = {
        "environment.use": config.uses,
        "learner.objective.kind": config.learner.objective_kind,
    }
    return {setting: name for setting, name in named.items() if ":" in name}


def _of_job() -> bool:
    """Return whether a Ray job copies its own working folder."""
    return "working_dir" in jobs.runtime_environment()


def _needed(config: RunConfig) -> Iterator[tuple[str, Path]]:
    """Yield the setting and the path of each file of the working folder that the run names."""
    folder = code_folder() or Path.cwd()
    places: list[tuple[str, Path]] = []
    for setting, name in _own_classes(config).items():
        spec = find_spec(name.partition(":")[0])
        places += [(setting, Path(spec.origin))] if spec and spec.origin else []
    texts = ((name, each) for name, each in config.environment.items() if isinstance(each, str))
    places += [(f"environment.{name}", folder / text) for name, text in texts if text]
    for setting, path in places:
        if path.is_file() and path.absolute().is_relative_to(folder):
            yield setting, path.absolute()


def _files(folder: Path) -> set[Path]:
    """Return the files of a folder, without those that nobody expects to be copied."""
    found: set[Path] = set()
    for where, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if f"{each}/" not in LEFT_BEHIND]
        found |= {Path(where, each) for each in files}
    return found


def _copied(folder: Path, excludes: tuple[str, ...]) -> set[Path]:
    """Return what Ray copies of a folder, by Ray's own search."""
    from ray._private.runtime_env import packaging

    private: Any = packaging
    found: set[Path] = set()
    private._dir_travel(
        folder,
        [private._get_excludes(folder, list(excludes))],
        found.add,
        include_gitignore=os.environ.get(ALL_FILES, "0") != "1",
        logger=logging.getLogger(__name__),
    )
    return found

"""Decides from which folders Python imports, besides installed packages.

A run's folder is data, and may come from a stranger: its settings and its tasks name modules, and
any of its files can have the name of a module that something imports later. So once this guard is
on, the import system finds nothing in a run's folder and below it, also where that folder is the
working folder, is in ``PYTHONPATH``, or is a package. Installed packages are found as before.

The working folder is no place to import from either, unless the user named what is there: a run
file, a class, or the folder itself with ``--code`` (`open_code`). This holds for the processes that
a command starts as well.

*What is not covered.* ``python -m coevolve`` in a stranger's folder: Python itself puts the working
folder first, and imports from it before any line here runs. The command ``coevolve`` does not do
that.
"""

import os
import sys
import sysconfig
from functools import cache
from importlib.abc import PathEntryFinder
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType

from coevolve.base.foreign import resolved
from protocols.errors import RunError

MARKS = ("run.json", "config.yaml")
"""A folder with these files is a run's: without them, no command takes it for one."""

SAFE_PATH = "PYTHONSAFEPATH"
"""Variable with which Python does not put the working folder first."""

SEARCHED = "PYTHONPATH"

CODE = "COEVOLVE_CODE"
"""Variable with the folder of a user's own modules, for the processes that a command starts; empty
if there is none."""

PACKAGES = tuple(
    f"{path}{os.sep}"
    for kind in ("stdlib", "platstdlib", "purelib", "platlib")
    for path in {sysconfig.get_path(kind), str(resolved(Path(sysconfig.get_path(kind))))}
)
"""Folders of Python and of installed packages, in which nothing is looked for."""


def guard_imports() -> None:
    """Find no module in a run's folder from now on, nor in the working folder by itself.

    Python processes that this process starts do not look in the working folder either.
    """
    if _hook not in sys.path_hooks:
        sys.path_hooks.insert(0, _hook)
        sys.path_importer_cache.clear()
    os.environ[SAFE_PATH] = "1"
    os.environ.setdefault(CODE, "")
    named = [each for each in os.environ.get(SEARCHED, "").split(os.pathsep) if each]
    if SEARCHED in os.environ:  # Python takes an empty entry for the working folder
        os.environ[SEARCHED] = os.pathsep.join(named)
    here = os.path.realpath(os.curdir)
    kept = {os.path.realpath(each) for each in (*named, Path(__file__).parents[2])}
    sys.path[:] = [each for each in sys.path if os.path.realpath(each) != here or here in kept]


def open_code(folder: Path) -> None:
    """Import a user's own modules from this folder, in this process and in those it starts.

    It comes last, or a user's json.py would hide the standard one.
    """
    os.environ[CODE] = os.path.abspath(folder)  # noqa: PTH100 -- links stay as the user named them
    use_code()


def use_code() -> None:
    """Import from the folder that the process that started this one has opened, if any."""
    folder = code_folder() if is_guarded() else None
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))


def code_folder() -> Path | None:
    """Return the folder of the user's own modules; None if they named none.

    Where no command guards the imports, as in a program of the user's, that is the working folder.
    """
    folder = os.environ.get(CODE, os.curdir)
    return Path(folder).absolute() if folder else None


def is_guarded() -> bool:
    """Return whether a command decides where modules are imported from."""
    return CODE in os.environ


def refuse_run_folder() -> None:
    """Refuse to start a run in a run's folder. Raises RunError.

    Ray puts the working folder before all others where a part of a run imports something.
    """
    if is_in_run(Path.cwd()):
        raise RunError(
            f"{Path.cwd()}: is in a run's folder, from which no code may be imported; cd to "
            "another folder, for example the one that holds runs/, and give the command there"
        )


def is_in_run(folder: Path) -> bool:
    """Return whether a folder is a run's, or is in one."""
    return _is_in_run(str(resolved(folder)))


@cache
def _is_in_run(folder: str) -> bool:
    if f"{folder}{os.sep}".startswith(PACKAGES):
        return False
    is_run = all(Path(folder, mark).is_file() for mark in MARKS)
    above = os.path.split(folder)[0]
    return is_run or (above != folder and _is_in_run(above))


class _OutsideRuns(FileFinder):
    """Finds the modules of a folder that is no run's."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module is; None if it is in a run's folder."""
        found = super().find_spec(fullname, target)
        if found is None or found.origin is None:
            return found
        return None if is_in_run(Path(found.origin).parent) else found


_finder = _OutsideRuns.path_hook(
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


def _hook(path: str) -> PathEntryFinder:
    """Return the finder of a folder. Raises ImportError for one that Python's own may look in."""
    if f"{path}{os.sep}".startswith(PACKAGES):
        raise ImportError(path)
    return _finder(path)

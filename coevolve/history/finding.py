"""Finds a run's folder by its name, its path, or because it is the newest."""

import errno
from pathlib import Path

from coevolve.base.foreign import DESCRIBED_CHARS, plain
from coevolve.base.similar import did_you_mean
from coevolve.history.directory import RunDirectory, has_journal
from protocols.errors import RunError

MAX_NAMED = 5
"""Maximum number of runs that an error lists."""

_NO_RUNS = "start one with `coevolve launch FILE`, or name another folder by --runs"


def find(run: str | None, root: Path) -> RunDirectory:
    """Return the folder of a run.

    Args:
        run: Its folder, a path inside it, or its name under ``root``; None for the newest run.
        root: The folder of all runs.

    Raises:
        RunError: There is no such run (the message names existing ones), or its `run.json` is
            broken.
    """
    if run is None:
        return newest(root)
    try:
        path = _named(run, root)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        path = None
    if path is None:
        raise RunError(
            f"{plain(run, DESCRIBED_CHARS)}: is neither a run's folder nor the name of one under "
            f"{root}{_near(run, root)}"
        )
    directory = RunDirectory(path.resolve())
    directory.identity()
    return directory


def newest(root: Path) -> RunDirectory:
    """Return the run under ``root`` that was started or resumed last.

    A run without a journal counts only if there is no other. Raises RunError.
    """
    runs = _newest_first(root)
    found = [path for path in runs if has_journal(RunDirectory(path))] or runs
    if not found:
        raise RunError(f"{root}: holds no run; {_NO_RUNS}")
    return RunDirectory(found[0].resolve())


def _named(run: str, root: Path) -> Path | None:
    """Return the folder of the run; ``run`` is the folder, its name, or a path inside it."""
    places = [path.absolute() for path in (Path(run), root / run)]
    around = (above for path in places if path.exists() for above in path.resolve().parents)
    return next((each for each in (*places, *around) if (each / "run.json").is_file()), None)


def _newest_first(root: Path) -> list[Path]:
    files = sorted(root.glob("*/run.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [file.parent for file in files]


def _near(run: str, root: Path) -> str:
    """Return suggestions for a misspelled name: similar names, and the newest runs."""
    names = [folder.name for folder in _newest_first(root)]
    if not names:
        return f", which holds no run; {_NO_RUNS}"
    hint = did_you_mean(Path(run).name, names)
    listed = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    return f"{hint}; newest first, it holds {listed}"

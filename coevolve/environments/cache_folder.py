"""Where this machine keeps what it installs and builds once: nothing of it is of a run.

It is ``$COEVOLVE_CACHE``, or ``coevolve`` in ``$XDG_CACHE_HOME``, or ``~/.cache/coevolve``.
"""

import os
from pathlib import Path

from protocols.errors import DependencyError

CACHE_VARIABLE = "COEVOLVE_CACHE"


def named_folder() -> Path | None:
    """Return the folder that the environment variables name, absolute; None if they name none."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).absolute()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification has relative paths ignored.
    return shared / "coevolve" if shared.is_absolute() else None


def cache_folder() -> Path:
    """Return the folder, which need not exist yet. Raises DependencyError without a home."""
    return named_folder() or home() / ".cache" / "coevolve"


def shared_folder(folder: Path) -> None:
    """Create the folder, and those above it, so that programs of other users can read it.

    A run's processes otherwise create what only their user can enter. Raises OSError.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        each.chmod(0o755)


def home() -> Path:
    """Return the user's home. Raises DependencyError if there is none."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise DependencyError(
            f"packages and compiled parts of environments are kept in the user's home, and user "
            f"{os.geteuid()} has none; set {CACHE_VARIABLE} to a folder"
        ) from error


def passed_on() -> dict[str, str]:
    """Return the variable for a child that gets no other environment; nothing without a home."""
    try:
        return {CACHE_VARIABLE: str(cache_folder())}
    except DependencyError:
        return {}


def compiled_kernels() -> dict[str, str]:
    """Return the variable that keeps what torch compiles out of the folder of temporary files."""
    try:
        return {"TORCHINDUCTOR_CACHE_DIR": str(cache_folder() / "torchinductor")}
    except DependencyError:
        return {}

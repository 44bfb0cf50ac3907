"""Python environments of their own, for programs whose packages may not mix with ours.

Each belongs to a list of pinned packages, and is in the cache folder under the list's digest, once
per machine. It is complete if it holds `COMPLETE`; what a killed installation leaves is removed by
the next one. Only the launcher, checks and ``coevolve setup`` install.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from coevolve.environments.cache_folder import CACHE_VARIABLE, cache_folder, shared_folder
from coevolve.environments.packages import (
    INSTALL_TIMEOUT_S,
    Say,
    alone,
    failure_of,
    installer_environment,
    refuse_another_user,
    uv_program,
)
from protocols.errors import DependencyError

COMPLETE = "complete"

PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w.,-]+\])?\s*(==\s*[\w.!+]+|@\s*\S+)", re.ASCII)
"""``NAME==VERSION`` or ``NAME @ URL``, with extras if need be."""


def unpinned(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the entries that do not name a package in one version."""
    return tuple(each for each in packages if not PINNED.fullmatch(each.strip()))


def python_of(packages: Sequence[str]) -> Path:
    """Return the interpreter of these packages, which need not be installed yet.

    Raises DependencyError if there is no cache folder.
    """
    return _folder(packages) / "bin" / "python"


def has_python(packages: Sequence[str]) -> bool:
    """Return whether the packages are installed. Raises DependencyError."""
    return (_folder(packages) / COMPLETE).is_file()


def make_python(packages: Sequence[str], say: Say) -> None:
    """Install the packages into a Python environment of their own, unless they are there.

    Raises DependencyError if that fails, or if another user made the environment.
    """
    folder = _folder(packages)
    try:
        shared_folder(folder.parent)
        with alone(folder, say) as lock:
            if not has_python(packages):
                say(f"installing {', '.join(packages)} into {folder} ...")
                _fill(folder, packages, lock)
    except (OSError, subprocess.SubprocessError) as error:
        raise DependencyError(
            f"environment.python: {', '.join(packages)} cannot be installed into {folder}: "
            f"{failure_of(error)}; check the versions and the network, or set {CACHE_VARIABLE} to "
            "a folder that can be written"
        ) from error
    refuse_another_user(folder)


def _folder(packages: Sequence[str]) -> Path:
    python = (sys.implementation.cache_tag, sysconfig.get_platform())
    named = "\0".join((*python, *(each.strip() for each in packages)))
    digest = hashlib.sha256(named.encode()).hexdigest()[:16]
    return cache_folder() / "pythons" / digest


def _fill(folder: Path, packages: Sequence[str], lock: int) -> None:
    """Make the environment; the caller holds ``lock``. Raises OSError and SubprocessError."""
    shutil.rmtree(folder, ignore_errors=True)
    uv, own = uv_program(), str(folder / "bin" / "python")
    if uv:
        _run((uv, "venv", "--quiet", "--python", sys.executable, str(folder)), lock)
        _run((uv, "pip", "install", "--quiet", "--python", own, *packages), lock)
    else:
        _run((sys.executable, "-m", "venv", str(folder)), lock)
        _run((own, "-m", "pip", "install", "--quiet", *packages), lock)
    (folder / COMPLETE).write_text("\n".join(packages))


def _run(command: Sequence[str], lock: int) -> None:
    """Run an installer, which holds the lock if this process is killed."""
    subprocess.run(  # noqa: S603 -- the installing program
        command,
        check=True,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        env=installer_environment(),
        umask=0o022,
        pass_fds=(lock,),
    )

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


class OwnPython:
    """The Python environment of a list of packages."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)

    @property
    def unpinned(self) -> tuple[str, ...]:
        """The entries that do not name a package in one version."""
        return tuple(each for each in self.packages if not PINNED.fullmatch(each.strip()))

    @property
    def interpreter(self) -> Path:
        """Its interpreter, which need not be there yet. Raises DependencyError without a cache."""
        return self._folder / "bin" / "python"

    @property
    def is_made(self) -> bool:
        """Whether the packages are installed. Raises DependencyError without a cache folder."""
        return (self._folder / COMPLETE).is_file()

    @property
    def _folder(self) -> Path:
        python = (sys.implementation.cache_tag, sysconfig.get_platform())
        named = "\0".join((*python, *(each.strip() for each in self.packages)))
        digest = hashlib.sha256(named.encode()).hexdigest()[:16]
        return cache_folder() / "pythons" / digest

    def make(self, say: Say) -> None:
        """Install the packages, unless they are there.

        Raises DependencyError if that fails, or if another user made the environment.
        """
        folder = self._folder
        try:
            shared_folder(folder.parent)
            with alone(folder, say) as lock:
                if not self.is_made:
                    say(f"installing {', '.join(self.packages)} into {folder} ...")
                    _fill(folder, self.packages, lock)
        except (OSError, subprocess.SubprocessError) as error:
            raise DependencyError(
                f"environment.python: {', '.join(self.packages)} cannot be installed into "
                f"{folder}: {failure_of(error)}; check the versions and the network, or set "
                f"{CACHE_VARIABLE} to a folder that can be written"
            ) from error
        refuse_another_user(folder)


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

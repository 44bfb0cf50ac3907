"""Compiles a design once into a program that runs stimulus programs, and keeps it in the cache.

The design is instrumented and compiled as for a testbench, between pins instead of inside one. The
program then says, by coverage files in which its counters are powers of two, which counter belongs
to which point: one point may have several. Everything is built inside the sandbox, beside the
runtime's folder, and put in its place by one rename, so that two processes may build at once.
"""

import hashlib
import shutil
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.hdl.instrument import Instrumented, instrument
from coevolve.hdl.points import PointSet, check_points, counts, point_set, records
from coevolve.hdl.rtl import HEADERS, elaborate
from coevolve.hdl.runtime import Runtime, open_runtime
from coevolve.hdl.sandbox import Finished, Sandbox, StageLimits
from coevolve.hdl.simulation import MODEL, SETTINGS, TESTBENCH, TRANSLATE
from coevolve.hdl.stimulus import pinout
from coevolve.hdl.stimulus.program import Pins
from coevolve.hdl.toolchain import Toolchain
from protocols.errors import ConfigError, SimulatorError
from protocols.hardware import Point, Port, Unit

SOURCES = Path(__file__).parent / "cpp"
COUNTERS_OF_PASS = 32
"""As in ``server.cpp``."""

Optimise = Literal["-O0", "-O2"]
"""``-O0`` takes 0.3 CPU seconds to compile, ``-O2`` 2.5 and runs about 4 times as fast."""

LIMITS = StageLimits(
    cpu_s=120.0, wall_s=300.0, memory_mb=4000, file_mb=64, processes=32, output_bytes=65_536
)
TOP = ("--top-module", "tb", "settings.vlt")
COMPILE = ("-g0", "-I.", "-c", "all.cpp", "-o", "all.o")
EVERYTHING = """#include "counters.h"
{model}
#include "pins.h"
#include "server.cpp"
"""


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A design's program and its points."""

    folder: Path
    points: PointSet

    @property
    def program(self) -> Path:
        """What runs."""
        return self.folder / "server"

    @property
    def owners(self) -> Path:
        """The point of each counter."""
        return self.folder / "owners.bin"


def compiled(
    unit: Unit,
    ports: Sequence[Port],
    pins: Pins,
    *,
    toolchain: Toolchain,
    sandbox: Sandbox,
    optimise: Optimise,
) -> Compiled:
    """Return the design's program, compiled now where the cache has none. Blocks.

    Raises ConfigError where the design does not compile or its points are not the frozen ones, and
    SimulatorError where the machine fails.
    """
    runtime = open_runtime(toolchain)
    folder = runtime.folder / "harnesses" / _digest(unit, ports, optimise)
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(prefix="harness_") as work:
            build = _Build(
                unit=unit, toolchain=toolchain, runtime=runtime, sandbox=sandbox, work=Path(work)
            )
            build.write(ports, pins)
            build.compile(optimise)
            _keep(build.mapped(), Path(work), folder)
    points = msgspec.msgpack.decode((folder / "points").read_bytes(), type=tuple[Point, ...])
    found = Compiled(folder=folder, points=point_set(points))
    check_points(found.points, unit)
    return found


def _digest(unit: Unit, ports: Sequence[Port], optimise: Optimise) -> str:
    told = hashlib.sha256(msgspec.msgpack.encode((unit.files, unit.top, ports, optimise)))
    told.update(msgspec.msgpack.encode((unit.clock, unit.reset, SETTINGS, TRANSLATE, EVERYTHING)))
    for source in sorted(SOURCES.iterdir()):
        told.update(source.read_bytes() + b"\0")
    return told.hexdigest()[:24]


@dataclass(kw_only=True)
class _Build:
    """One build, in a folder that is removed after."""

    unit: Unit
    toolchain: Toolchain
    runtime: Runtime
    sandbox: Sandbox
    work: Path

    def write(self, ports: Sequence[Port], pins: Pins) -> None:
        for file in self.instrumented.files:
            (self.work / file.name).write_text(file.text)
        (self.work / TESTBENCH).write_text(pinout.module(self.unit, ports, pins))
        (self.work / "pins.h").write_text(pinout.header(self.unit, pins))
        (self.work / "settings.vlt").write_text(SETTINGS)
        for source in SOURCES.iterdir():
            shutil.copy(source, self.work)
        (self.work / MODEL).mkdir()

    def compile(self, optimise: Optimise) -> None:
        files = [file.name for file in self.unit.files if not file.name.endswith(HEADERS)]
        done = self._run([str(self.runtime.verilator), *TRANSLATE, *TOP, *files, TESTBENCH])
        if done.status:
            raise ConfigError(f"design {self.unit.name} does not compile:\n{done.output[:2000]}")
        parts = sorted(path.name for path in (self.work / MODEL).glob("*.cpp"))
        model = "\n".join(f'#include "{MODEL}/{part}"' for part in parts)
        (self.work / "all.cpp").write_text(EVERYTHING.format(model=model))
        self.sandbox.own(self.work)
        prepared = ("-include-pch", str(self.runtime.header))
        if optimise != "-O0":
            prepared = ("-include", str(self.runtime.folder / "cpp" / "precompiled.h"))
        clang = str(self.toolchain.clang)
        self._work([clang, *self.runtime.flags(optimise), *prepared, *COMPILE])
        library = self.runtime.library
        linker = [f"-fuse-ld={self.toolchain.linker}"] if self.toolchain.linker else []
        linked = ["all.o", str(library), f"-Wl,-rpath,{library.parent}", "-lpthread"]
        self._work([clang, *linker, *linked, "-o", "server"])
        self._work([str(self.work / "server"), "map", "map"])

    def mapped(self) -> dict[Point, list[int]]:
        """Return the counters of each point."""
        owned: dict[Point, list[int]] = {}
        for path in self.work.glob("map.*"):
            first = COUNTERS_OF_PASS * int(path.suffix[1:])
            found = counts(records(path.read_text()), "tb.dut", self.instrumented)
            for point, marks in found.items():
                counters = [first + bit for bit in range(COUNTERS_OF_PASS) if marks >> bit & 1]
                owned.setdefault(point, []).extend(counters)
        return owned

    @cached_property
    def instrumented(self) -> Instrumented:
        return instrument(elaborate(self.unit))

    def _work(self, argv: Sequence[str]) -> None:
        done = self._run(argv)
        if done.status:
            raise SimulatorError(
                f"design {self.unit.name}: its harness was not built: {Path(argv[0]).name} ended "
                f"with status {done.status}: {done.output[:2000].strip()}"
            )

    def _run(self, argv: Sequence[str]) -> Finished:
        self.sandbox.own(self.work)
        environment = {"PATH": "/usr/bin:/bin", "VERILATOR_ROOT": str(self.runtime.root)}
        done = self.sandbox.run(
            argv, work=self.work, cwd=self.work, limits=LIMITS, environment=environment
        )
        if done.limit:
            raise SimulatorError(
                f"design {self.unit.name}: its harness was not built: {Path(argv[0]).name} met its "
                f"limit of {done.limit}"
            )
        return done


def _keep(owned: dict[Point, list[int]], work: Path, folder: Path) -> None:
    """Put what is needed in its place; another process may have been faster."""
    points = point_set(owned).points
    owners = array("i", [-1]) * (1 + max((max(each) for each in owned.values()), default=-1))
    for index, point in enumerate(points):
        for counter in owned[point]:
            owners[counter] = index
    folder.parent.mkdir(mode=0o755, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="new_", dir=folder.parent))
    shutil.copy(work / "server", made)
    (made / "owners.bin").write_bytes(owners.tobytes())
    (made / "points").write_bytes(msgspec.msgpack.encode(points))
    made.chmod(0o755)
    try:
        made.rename(folder)
    except OSError:
        shutil.rmtree(made)
        if not folder.is_dir():
            raise

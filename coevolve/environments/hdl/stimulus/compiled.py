"""Compiles a design once into a program that runs stimulus programs, and caches it.

The design is instrumented and compiled as for a testbench, but between pins instead of inside one.
Then the program writes coverage files in which its counters are powers of two. These show which
counters belong to which point; a point may have several. The build runs in the sandbox, and one
rename moves the result to its place beside the runtime's folder, so two processes may build at
once.
"""

import hashlib
import shutil
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.environments.hdl.coverage import points as reading
from coevolve.environments.hdl.coverage.instrument import Instrumented, instrument
from coevolve.environments.hdl.coverage.plan import check_plan
from coevolve.environments.hdl.coverage.points import (
    PointSet,
    check_points,
    counts,
    point_set,
    records,
)
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    DataFile,
    Point,
    Port,
    SimulationLimits,
    Unit,
)
from coevolve.environments.hdl.simulate.runtime import open_runtime
from coevolve.environments.hdl.simulate.simulation import (
    MODEL,
    TRANSLATE,
    Simulation,
    Stopped,
    Tools,
    simulation,
)
from coevolve.environments.hdl.simulate.toolchain import Toolchain
from coevolve.environments.hdl.stimulus import pin_map
from coevolve.environments.hdl.stimulus.program import Pins
from coevolve.environments.sdk import CACHE_VARIABLE, Sandbox, StageLimits, shared_folder
from protocols.errors import ConfigError, SimulatorError

SOURCES = Path(__file__).parent / "cpp"
COUNTERS_OF_PASS = 32
"""Counters in one coverage file of ``map``; the same as in ``server.cpp``."""

SERVER = "server"
DUT = "tb.dut"

Optimise = Literal["-O0", "-O2"]
"""``-O0`` compiles in 0.3 CPU seconds; ``-O2`` in 2.5, and runs about 4 times as fast."""

LIMITS = StageLimits(
    cpu_s=120.0, wall_s=300.0, memory_mb=4000, file_mb=64, processes=32, output_bytes=65_536
)
EVERYTHING = """#include "counters.h"
{model}
#include "pins.h"
#include "server.cpp"
"""


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A design's compiled program and its points."""

    folder: Path
    points: PointSet
    data: tuple[DataFile, ...] = ()

    @property
    def program(self) -> Path:
        """The path of the program."""
        return self.folder / SERVER

    @property
    def owners(self) -> Path:
        """The path of the file that names the point of each counter."""
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
    """Return the design's program; compiles it if it is not cached. Blocks.

    Raises ConfigError where the design does not compile or its points are not the frozen ones, and
    SimulatorError on an infrastructure failure.
    """
    check_plan(unit)
    tools = Tools(toolchain=toolchain, runtime=open_runtime(toolchain), sandbox=sandbox)
    instrumented = instrument(elaborate(unit))
    around = pin_map.module(unit, ports, pins)
    header = pin_map.header(unit, pins)
    inputs = (instrumented.files, unit.plan, around, header, optimise, TRANSLATE, EVERYTHING)
    folder = tools.runtime.folder / "harnesses" / _digest(inputs)
    if not folder.is_dir():
        with simulation(tools, unit, SimulationLimits()) as under_way:
            _write_sources(under_way.folder, header)
            try:
                under_way.translate(instrumented.files, around, "tb")
            except Stopped as stopped:
                raise _build_error(unit, stopped) from stopped
            program = _compile(under_way, optimise)
            owned = _counters(under_way, instrumented)
        try:
            _keep(folder, program, owned)
        except OSError as error:
            raise SimulatorError(
                f"the harness of {unit.name} cannot be written to {folder.parent}: {error}; free "
                f"space there, or set {CACHE_VARIABLE} to another folder"
            ) from error
    points = msgspec.msgpack.decode((folder / "points").read_bytes(), type=tuple[Point, ...])
    found = Compiled(folder=folder, points=point_set(points), data=unit.data)
    check_points(found.points, unit)
    return found


def _digest(inputs: object) -> str:
    """Return the hash of a build's inputs; the parent folder's name covers the toolchain."""
    digest = hashlib.sha256(msgspec.msgpack.encode(inputs))
    for source in (Path(reading.__file__), *sorted(SOURCES.iterdir())):
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _build_error(unit: Unit, stopped: Stopped) -> ConfigError | SimulatorError:
    match stopped.outcome:
        case CompileFailed(message=message):
            return ConfigError(f"design {unit.name} does not compile by itself: {message}")
        case outcome:
            return SimulatorError(f"design {unit.name}: its harness was not built: {outcome}")


def _write_sources(folder: Path, header: str) -> None:
    for source in SOURCES.iterdir():
        shutil.copy(source, folder)
    (folder / "pins.h").write_text(header)


def _compile(under_way: Simulation, optimise: Optimise) -> bytes:
    """Return the compiled program."""
    folder, runtime = under_way.folder, under_way.tools.runtime
    parts = sorted(path.name for path in (folder / MODEL).glob("*.cpp"))
    model = "\n".join(f'#include "{MODEL}/{part}"' for part in parts)
    (folder / "all.cpp").write_text(EVERYTHING.format(model=model))
    under_way.tools.sandbox.own(folder)
    prepared = ("-include-pch", str(runtime.header))
    if optimise != "-O0":
        prepared = ("-include", str(runtime.folder / "cpp" / "precompiled.h"))
    clang, linker = str(under_way.tools.toolchain.clang), under_way.tools.toolchain.linker
    flags = (*runtime.flags(optimise), "-g0", "-I.", *prepared)
    _run(under_way, [clang, *flags, "-c", "all.cpp", "-o", "all.o"])
    use = [f"-fuse-ld={linker}"] if linker else []
    library = [str(runtime.library), f"-Wl,-rpath,{runtime.folder}", "-lpthread"]
    _run(under_way, [clang, *use, "all.o", *library, "-o", SERVER])
    return (folder / SERVER).read_bytes()


def _counters(under_way: Simulation, instrumented: Instrumented) -> dict[Point, list[int]]:
    """Return the counters of each point."""
    _run(under_way, [str(under_way.folder / SERVER), "map", "map"])
    owned: dict[Point, list[int]] = {}
    plan = frozenset(file.name for file in under_way.unit.plan)
    for number in count():
        text = under_way.read(f"map.{number}")
        if not text:
            return owned
        for point, marks in counts(records(text), DUT, instrumented, plan).items():
            bits = (bit for bit in range(COUNTERS_OF_PASS) if marks >> bit & 1)
            owned.setdefault(point, []).extend(COUNTERS_OF_PASS * number + bit for bit in bits)
    raise AssertionError


def _run(under_way: Simulation, argv: Sequence[str]) -> None:
    done = under_way.tools.sandbox.run(
        argv,
        work=under_way.folder,
        cwd=under_way.folder,
        limits=LIMITS,
        environment={"PATH": "/usr/bin:/bin", "TMPDIR": str(under_way.folder)},
    )
    if done.status or done.limit:
        how = f"met its limit of {done.limit}" if done.limit else f"ended with {done.status}"
        raise SimulatorError(
            f"design {under_way.unit.name}: its harness was not built: {Path(argv[0]).name} {how}: "
            f"{done.output[:2000].strip()}"
        )


def _keep(folder: Path, program: bytes, owned: Mapping[Point, Sequence[int]]) -> None:
    """Write the build's results to ``folder``, unless another process was faster."""
    points = point_set(owned).points
    owners = array("i", [-1]) * (1 + max((max(each) for each in owned.values()), default=-1))
    for index, point in enumerate(points):
        for counter in owned[point]:
            owners[counter] = index
    shared_folder(folder.parent)
    made = Path(tempfile.mkdtemp(prefix="new_", dir=folder.parent))
    (made / SERVER).write_bytes(program)
    (made / "owners.bin").write_bytes(owners.tobytes())
    (made / "points").write_bytes(msgspec.msgpack.encode(points))
    for file in made.iterdir():
        file.chmod(0o755 if file.name == SERVER else 0o644)
    made.chmod(0o755)
    try:
        made.rename(folder)
    except OSError:
        shutil.rmtree(made)
        if not folder.is_dir():
            raise

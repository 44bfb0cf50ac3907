"""Adopts a module of a project as a design, for the command ``coevolve hdl adopt``.

The design's folder has copies of what Verilator reads (`hdl.adopt.copies`), with the clock, the
reset, and the coverage points, frozen. It needs no specification, testbenches or mutants.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from coevolve.environments.hdl.adopt.bench_parameters import bench_top, bench_use, used_files
from coevolve.environments.hdl.adopt.bench_text import bench_text
from coevolve.environments.hdl.adopt.copies import copies, needed, with_parameters
from coevolve.environments.hdl.adopt.data_files import with_data
from coevolve.environments.hdl.adopt.file_list import FileList, read_lists
from coevolve.environments.hdl.adopt.pins import clock_and_reset
from coevolve.environments.hdl.adopt.reading import Sources, Verilator, without_files
from coevolve.environments.hdl.coverage.points import point_set
from coevolve.environments.hdl.designs.design import PointsFile
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.qualify import freeze
from coevolve.environments.hdl.designs.rtl import elaborate_here, ports_of
from coevolve.environments.hdl.designs.wrapping import alone, flat, has_interfaces
from coevolve.environments.hdl.gate.elaboration import BenchUse
from coevolve.environments.hdl.simulate.messages import NotCovered, Reset, SourceFile, Unit
from coevolve.environments.hdl.simulate.verilator import open_simulator
from protocols.errors import ConfigError

AROUND = "coevolve_around"
"""Name of a module around one with ports of interfaces."""

SEVERAL = (
    "the testbench has instances under several parameters, so the module keeps its own; "
    "`hdl simulate --gate trusted` counts those like the first; --instance takes another: "
)

ABSENT = "none found (if it has one, --reset PORT=low or PORT=high names it)"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line; `coevolve.environments.hdl.cli` says what each option is."""

    project: tuple[Path, ...]
    top: str
    to: Path | None
    parameter: tuple[str, ...]
    define: tuple[str, ...]
    include: tuple[Path, ...]
    data: tuple[Path, ...]
    bench: tuple[Path, ...]
    clock: str
    reset: Reset | None
    flat: bool


def adopt(options: Options) -> Path:
    """Write the design's folder, print what is in it, and return it.

    Raises ConfigError with place, construct and remedy where the module cannot be adopted,
    SimulatorError on an infrastructure failure, and DependencyError where a program is missing.
    """
    folder = options.to or Path(options.top)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is not empty; remove it, or name another folder by --to")
    simulator = open_simulator()
    runtime = simulator.tools.runtime
    found = found_design(options, Verilator(program=runtime.verilator, root=runtime.root))
    unit = found.unit
    _write(folder, found, options)
    design = load(folder)
    points = point_set(asyncio.run(simulator.points(design.unit)))
    freeze(folder, PointsFile(count=len(points.points), sha256=points.sha256))
    sys.stdout.write("\n".join(_told(folder, unit, len(points.points), found.notes)) + "\n")
    return folder


def _given(options: Options) -> FileList:
    given = read_lists(options.project)
    given.options += [f"-I{path}" for path in options.include]
    for each in options.define:
        name, _, value = each.partition("=")
        given.defines[name] = value
    for each in options.parameter:
        name, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(f"--parameter: needs NAME=VALUE, found {each!r}")
        given.parameters[name] = value
    return given


@dataclass(frozen=True, kw_only=True)
class Found:
    """A module as a design, before it is simulated."""

    unit: Unit
    origins: Mapping[str, Path]
    """The original of each file, by its name."""

    notes: tuple[str, ...]
    """What the person should know."""


def found_design(options: Options, verilator: Verilator) -> Found:
    """Return the module as a design. Raises ConfigError where it cannot be one."""
    given = _given(options)
    bench = bench_text(options.bench, options.include).text
    sources, refused = _sources(options, given, bench, verilator)
    made = copies(sources, given.defines)
    rtl = elaborate_here(Unit(name=options.top, files=made.files, top=options.top), faulty=True)
    use = _use(options, bench, rtl.unit)
    several = SEVERAL + ", ".join(use.counted + use.others) if use.others else ""
    values = ({} if use.others else use.parameters) | given.parameters
    files = with_parameters(rtl, values)
    rtl = elaborate_here(msgspec.structs.replace(rtl.unit, files=files))
    used = {rtl.sources.getFileName(rtl.top.definition.location), *use.files}
    rtl = needed(rtl, used | used_files(rtl.top, rtl.sources))
    if options.flat:
        rtl = elaborate_here(flat(rtl))
    unit, notes = with_data(rtl, made.origins, options.data)
    clock, reset = clock_and_reset(ports_of(rtl), unit.files)
    return Found(
        unit=msgspec.structs.replace(
            unit, clock=options.clock or clock, reset=options.reset or reset
        ),
        origins=made.origins,
        notes=(*_said_values(values), *filter(None, (several, refused)), *notes),
    )


def _sources(
    options: Options, given: FileList, bench: str, verilator: Verilator
) -> tuple[Sources, str]:
    """Return what Verilator reads for the module, and of the project for the testbench.

    A note says why Verilator does not take the testbench, which then brings no files; empty if it
    does.
    """
    if not options.bench:
        return _of_module(given, options.top, verilator), ""
    stub = SourceFile(name="stub.sv", text="")
    top = bench_top(bench, Unit(name=options.top, files=(stub,), top=options.top))
    if isinstance(top, NotCovered):
        raise ConfigError(f"{options.bench[0]}: {top.message}")
    both = replace(given, files=[*given.files, *options.bench], parameters={})
    try:
        return without_files(verilator.read(both, top), options.bench), ""
    except ConfigError as error:
        note = f"the testbench brings no files, since it is refused: {error}"
        return _of_module(given, options.top, verilator), note


def _of_module(given: FileList, top: str, verilator: Verilator) -> Sources:
    """Return what Verilator reads for the module.

    Verilator takes no top with ports of interfaces, so such a module is read inside of another.
    """
    try:
        return verilator.read(given, top)
    except ConfigError:
        around = _around(given, top, verilator)
        if not around:
            raise
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{AROUND}.sv"
        path.write_text(around)
        both = replace(given, files=[*given.files, path], parameters={})
        return without_files(verilator.read(both, AROUND), [path])


def _around(given: FileList, top: str, verilator: Verilator) -> str:
    """Return a module around one with ports of interfaces; empty for any other.

    Raises ConfigError for a port of any interface.
    """
    try:
        text = verilator.preprocessed(given, given.files, top)
        unit = Unit(name=top, files=(SourceFile(name="all.sv", text=text),), top=top)
        rtl = elaborate_here(unit, faulty=True)
    except ConfigError:
        return ""
    return alone(rtl, AROUND) if has_interfaces(rtl) else ""


def _use(options: Options, bench: str, unit: Unit) -> BenchUse:
    if not options.bench:
        return BenchUse()
    use = bench_use(bench, unit)
    if isinstance(use, NotCovered):
        raise ConfigError(f"{options.bench[0]}: {use.message}")
    return use


def _said_values(values: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield "parameters: " + ", ".join(f"{name}={value}" for name, value in values.items())


def _write(folder: Path, found: Found, options: Options) -> None:
    unit = found.unit
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in unit.files:
            (folder / file.name).write_text(file.text, encoding="utf-8")
        for each in unit.data:
            (folder / each.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / each.name).write_text(each.text, encoding="utf-8")
        text = "\n".join(_yaml(folder, found, options)) + "\n"
        (folder / "design.yaml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error}") from error


def _yaml(folder: Path, found: Found, options: Options) -> Iterator[str]:
    """Yield the lines of design.yaml."""
    unit = found.unit
    yield f"# Adopted from {', '.join(map(str, options.project))} by `coevolve hdl adopt`."
    yield "# Waivers: list points that no testbench can cover under `unreachable`."
    yield "adopted: true"
    yield f"top: {unit.top}"
    yield "files:"
    for file in unit.files:
        origin = found.origins.get(file.name)
        comment = f"  # {os.path.relpath(origin, folder.resolve())}" if origin else ""
        yield f"  - {file.name}{comment}"
    if unit.data:
        yield "data:"
        yield from (f"  - {each.name}" for each in unit.data)
    if unit.clock:
        yield f"clock: {unit.clock}"
    if unit.reset:
        yield f"reset: {{port: {unit.reset.port}, active: {unit.reset.active}}}"


def _told(folder: Path, unit: Unit, points: int, notes: Sequence[str]) -> Iterator[str]:
    reset = f"{unit.reset.port}, active {unit.reset.active}" if unit.reset else ABSENT
    yield f"{folder}: {unit.top} with {points} points in {len(unit.files)} files"
    yield f"  clock: {unit.clock or 'none found'}; reset: {reset}"
    yield from (f"  {each}" for each in notes)
    yield f"Next: coevolve hdl simulate {folder} TB.sv"

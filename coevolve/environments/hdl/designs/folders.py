"""Reads the folders of ``designs/`` strictly, and RTL files outside such folders.

`hdl.designs.design` describes the content of a folder. One ConfigError names every fault of a
folder. `hdl.designs.qualify` checks what needs a simulation: the points, and the coverage of the
testbenches.
"""

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from coevolve.environments.hdl.coverage.points import is_point_text
from coevolve.environments.hdl.designs.design import QUALITIES, Design, DesignFile, Mutant, Quality
from coevolve.environments.hdl.designs.rtl import elaborate, ports, ports_of
from coevolve.environments.hdl.gate.encoding import rtl_text
from coevolve.environments.hdl.simulate.messages import DataFile, Port, Reset, SourceFile, Unit
from coevolve.environments.sdk import NotYamlError, check_section, parse_yaml
from protocols.errors import ConfigError

TESTBENCH_FILE, PLAN_FILE = "tb.sv", "plan.sv"
MOST_BYTES = 4 << 20
"""Maximum bytes read of a file: a device or a pipe may have no end."""


def load(folder: Path) -> Design:
    """Return the design in ``folder``. Raises ConfigError with all faults of the folder."""
    file = _design_file(folder)
    faults: list[str] = []
    sources = tuple(_source(folder / name, faults) for name in file.files)
    data = tuple(_data(folder, name, faults) for name in file.data)

    def has(name: str) -> bool:
        return not file.adopted or (folder / name).exists()

    specification = _text(folder / "spec.md", faults) if has("spec.md") else ""
    paths = {each: f"testbenches/{each}.sv" for each in QUALITIES}
    benches = {each: _text(folder / path, faults) for each, path in paths.items() if has(path)}
    mutants = _mutants(folder, sources, faults) if has("mutants.yaml") else ()
    plan = folder / PLAN_FILE
    planned = (_source(plan, faults),) if plan.is_file() else ()
    _refuse(folder, faults)
    unit = msgspec.structs.replace(unit_of(folder.name, file, sources), data=data)
    found = ports_of(elaborate(unit))
    _refuse(folder, _unit_faults(unit, found))
    return Design(
        design_id=folder.name,
        file=file,
        unit=unit,
        ports=found,
        specification=specification,
        testbenches=cast("dict[Quality, str]", benches),
        mutants=mutants,
        plan=planned,
    )


def load_all(root: Path) -> tuple[Design, ...]:
    """Return the designs in the folders of ``root`` that have a ``design.yaml``, by name.

    Raises ConfigError with all faults of all folders.
    """
    designs: list[Design] = []
    faults: list[str] = []
    for file in sorted(root.glob("*/design.yaml")):
        try:
            designs.append(load(file.parent))
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(faults))
    if not designs:
        raise ConfigError(f"{root}: needs folders with a design.yaml, found none")
    return tuple(designs)


def unit_of(name: str, file: DesignFile, sources: Sequence[SourceFile]) -> Unit:
    """Return the part of a design that the simulator needs."""
    return Unit(
        name=name,
        files=tuple(sources),
        top=file.top,
        clock=file.clock,
        reset=file.reset,
        unreachable=file.unreachable,
        points_sha256=file.points.sha256 if file.points else "",
        keeps_secret=bool(file.secret),
    )


def unit_from_files(
    paths: Sequence[Path], top: str, clock: str = "", reset: Reset | None = None
) -> Unit:
    """Return a unit of RTL files outside of ``designs/``, given in the order of compilation.

    Raises ConfigError where a file cannot be read, or a clock or reset is no input of ``top``.
    """
    faults: list[str] = []
    sources = tuple(_source_at(path, faults) for path in paths)
    names = [source.name for source in sources]
    faults += [f"two files are called {name}" for name in sorted({*names}) if names.count(name) > 1]
    if not paths:
        faults.append("at least one RTL file is needed, found none")
    if faults:
        raise ConfigError(f"{top}: " + "; ".join(faults))
    unit = Unit(name=top, files=sources, top=top, clock=clock, reset=reset)
    if clock or reset:
        _refuse(top, _pin_faults(unit, ports(unit)))
    return unit


def with_plan(unit: Unit, paths: Sequence[Path]) -> Unit:
    """Return the unit with the plan in these files. Raises ConfigError where one is unreadable."""
    faults: list[str] = []
    plan = tuple(_source_at(path, faults) for path in paths)
    _refuse(unit.name, faults)
    return msgspec.structs.replace(unit, plan=plan)


def _source_at(path: Path, faults: list[str]) -> SourceFile:
    mine: list[str] = []
    source = _source(path, mine)
    faults += [f"in {path.parent}: {fault}" for fault in mine]
    return source


def _design_file(folder: Path) -> DesignFile:
    if not folder.is_dir():
        raise ConfigError(
            f"{folder}: a design is a folder with a design.yaml, found no such folder; give one, "
            "as designs/NAME, or the RTL itself"
        )
    path = folder / "design.yaml"
    faults: list[str] = []
    tree = _yaml(path, faults)
    _refuse(folder, faults)
    check_section(DesignFile, tree, "$", faults)
    _refuse(path, faults)
    return msgspec.convert(tree, DesignFile)


def _mutants(folder: Path, sources: Sequence[SourceFile], faults: list[str]) -> tuple[Mutant, ...]:
    path = folder / "mutants.yaml"
    unread: list[str] = []
    tree = _yaml(path, unread)
    if unread:
        faults += unread
        return ()
    mine = [] if isinstance(tree, list) else ["needs a list of mutants, [] for none"]
    entries = cast("list[Any]", tree) if isinstance(tree, list) else []
    for index, entry in enumerate(entries):
        check_section(Mutant, entry, f"$[{index}]", mine)
    mutants = () if mine else tuple(msgspec.convert(entry, Mutant) for entry in entries)
    names = [mutant.name for mutant in mutants]
    for mutant in mutants:
        mine += _mutant_faults(mutant, sources, names)
    faults += [f"{path.name}: {fault}" for fault in mine]
    return mutants


def _mutant_faults(
    mutant: Mutant, sources: Sequence[SourceFile], names: Sequence[str]
) -> list[str]:
    faults: list[str] = []
    if names.count(mutant.name) > 1:
        faults.append(f"two mutants are called {mutant.name}")
    text = next((source.text for source in sources if source.name == mutant.file), None)
    if text is None:
        known = ", ".join(source.name for source in sources)
        faults.append(f"{mutant.name}: needs one of the files {known}, found {mutant.file!r}")
    elif (found := text.count(mutant.find)) != 1:
        faults.append(
            f"{mutant.name}: its text must occur exactly once in {mutant.file}, found it {found} "
            f"times: {mutant.find!r}"
        )
    if mutant.find == mutant.replace:
        faults.append(f"{mutant.name}: changes nothing")
    return faults


def _pin_faults(unit: Unit, found: Sequence[Port]) -> list[str]:
    pins = [("clock", unit.clock), ("reset", unit.reset.port if unit.reset else "")]
    return [
        f"{role}: needs an input of one bit of {unit.top}, found {name!r}"
        f"{_near(name, [port.name for port in found])}"
        for role, name in pins
        if name and Port(name=name, direction="in", width=1) not in found
    ]


def _unit_faults(unit: Unit, found: Sequence[Port]) -> list[str]:
    faults = [f"design.yaml: $.{fault}" for fault in _pin_faults(unit, found)]
    faults += [
        f"design.yaml: $.unreachable: needs the form 'metric file:line:column instance name', "
        f"with - for the instance of the top, found {entry!r}"
        for entry in unit.unreachable
        if not is_point_text(entry)
    ]
    return faults


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near and near[0] != name else ""


def _source(path: Path, faults: list[str]) -> SourceFile:
    text = _text(path, faults, rtl_text)
    try:
        source = msgspec.convert({"name": path.name, "text": text}, SourceFile)
    except msgspec.ValidationError:
        faults.append(f"{path.name}: a file's name may hold letters, digits, '_', '.' and '-' only")
        return SourceFile(name="invalid.sv", text=text)
    if source.name == TESTBENCH_FILE:
        faults.append(f"{TESTBENCH_FILE} is the name of the testbench; rename the RTL file")
    return source


def _data(folder: Path, name: str, faults: list[str]) -> DataFile:
    try:
        return msgspec.convert({"name": name, "text": (folder / name).read_text()}, DataFile)
    except msgspec.ValidationError:
        faults.append(f"data: needs paths of letters, digits, '_', '.' and '-', found {name!r}")
    except (OSError, UnicodeDecodeError) as error:
        faults.append(f"{name} cannot be read: {error}")
    return DataFile(name="invalid", text="")


def _text(path: Path, faults: list[str], decode: Callable[[bytes], str] = bytes.decode) -> str:
    """Return a file's text, with line feeds only; empty if the file has a fault."""
    name = f"{path.parent.name}/{path.name}" if path.parent.name == "testbenches" else path.name
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = decode(data) if len(data) <= MOST_BYTES else "too long"
    except FileNotFoundError:
        near = _near(path.name, [each.name for each in path.parent.glob("*")])
        faults.append(f"{name} is missing{near}")
        return ""
    except UnicodeDecodeError as error:
        faults.append(f"{name} cannot be read as UTF-8 text: {error}")
        return ""
    except (OSError, ValueError) as error:
        faults.append(f"{name} cannot be read: {error}")
        return ""
    if len(data) > MOST_BYTES:
        faults.append(f"{name} needs to have at most {MOST_BYTES} bytes, has more")
    if not text.strip():
        faults.append(f"{name} is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _yaml(path: Path, faults: list[str]) -> Any:
    before = len(faults)
    text = _text(path, faults)
    if len(faults) > before:
        return None
    try:
        return parse_yaml(text)
    except NotYamlError as error:
        faults.append(f"{path.name} is not YAML: {error}")
        return None


def _refuse(where: Path | str, faults: Sequence[str]) -> None:
    if faults:
        raise ConfigError(f"{where}: " + "; ".join(faults))

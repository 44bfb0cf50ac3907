"""Elaborates a unit's RTL with pyslang: its ports and its errors.

All files are one compilation unit, as for Verilator: a macro of one file is defined in the files
after it. Files that end in ``.svh`` or ``.vh`` are headers: they are not compiled by themselves.
Only the unit's own files may be read. An ``include`` of another file is refused before pyslang sees
it. If macros build such an ``include``, the design is refused afterwards, and the error shows
nothing of the file.

A design may be foreign text, so `elaborate` first reads it in a process with limits. A text that is
nested too deeply or takes too much ends that process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

from pyslang import Bag, Diagnostic, DiagnosticEngine, SourceLocation, SourceManager, TimeScale
from pyslang.ast import (
    ArgumentDirection,
    CallExpression,
    Compilation,
    CompilationFlags,
    CompilationOptions,
    InstanceBodySymbol,
    InstanceSymbol,
    PortSymbol,
    Symbol,
    VisitAction,
)
from pyslang.syntax import (
    SyntaxTree,
)

from coevolve.environments.hdl.gate.elaboration import check_design
from coevolve.environments.hdl.gate.tokens import Positions, read
from coevolve.environments.hdl.simulate.messages import Port, SourceFile, Unit
from protocols.errors import ConfigError

HEADERS = (".svh", ".vh")
MOST_ERRORS = 8

TIMESCALE = "1ns/1ps"
"""Time scale of modules that name none."""

LENIENT = (
    CompilationFlags.AllowBareValParamAssignment
    | CompilationFlags.AllowHierarchicalConst
    | CompilationFlags.AllowMergingAnsiPorts
    | CompilationFlags.AllowRecursiveImplicitCall
    | CompilationFlags.AllowSelfDeterminedStreamConcat
    | CompilationFlags.AllowUseBeforeDeclare
    | CompilationFlags.RelaxEnumConversions
    | CompilationFlags.RelaxStringConversions
)
"""Constructs beyond the standard that simulators accept."""

INCLUDES = (
    "`include needs the plain name, as a string, of one of the design's own files; give what is "
    "included as one of them"
)

READS = frozenset(
    {"$readmemh", "$readmemb", "$fread", "$fscanf", "$fgets", "$fgetc", "$sdf_annotate"}
)
"""System tasks that read a file."""

_DIRECTIONS: dict[ArgumentDirection, Literal["in", "out", "inout"]] = {
    ArgumentDirection.In: "in",
    ArgumentDirection.Out: "out",
    ArgumentDirection.InOut: "inout",
}


@dataclass(frozen=True, kw_only=True)
class Rtl:
    """An elaborated design."""

    unit: Unit
    sources: SourceManager
    tree: SyntaxTree
    compilation: Compilation
    """Must outlive all symbols."""

    top: InstanceBodySymbol


def options_for(top: str = "") -> CompilationOptions:
    """Return the options for foreign text with the top module ``top``, or any top if empty."""
    options = CompilationOptions()
    options.flags = LENIENT
    options.defaultTimeScale = TimeScale.fromString(TIMESCALE)
    if top:
        options.topModules = {top}
    return options


def compilation_of(tree: SyntaxTree, options: CompilationOptions) -> Compilation:
    """Return the compilation of one text; elaboration starts at the first query."""
    compilation = Compilation(Bag([options]))
    compilation.addSyntaxTree(tree)
    return compilation


def elaborate(unit: Unit) -> Rtl:
    """Return the elaborated design.

    Raises ConfigError if the design cannot be read within limits, does not compile by itself, or
    reads a file (without that file it would behave differently). Raises SimulatorError on an
    infrastructure failure.
    """
    check_design(unit)
    return elaborate_here(unit)


def elaborate_here(unit: Unit) -> Rtl:
    """Return the elaborated design, as `elaborate`, but without limits on time and memory."""
    if faults := list(_faults(unit)):
        raise _compile_error(unit, faults)
    sources = SourceManager()
    tree = parse(unit.files, sources)
    if _has_read(sources):
        raise _compile_error(unit, [INCLUDES])
    compilation = compilation_of(tree, options_for(unit.top))
    names = sorted(each.name for each in compilation.getDefinitions())
    if unit.top not in names:
        raise ConfigError(
            f"design {unit.name}: needs its top module {unit.top!r} in "
            f"{', '.join(file.name for file in unit.files)}, found "
            f"{', '.join(names) or 'none'}"
        )
    errors = _errors(compilation, sources, {file.name for file in unit.files})
    if errors:
        raise _compile_error(unit, errors)
    instance = cast("InstanceSymbol", compilation.getRoot().topInstances[0])
    if reads := _file_reads(instance, sources):
        raise _compile_error(unit, reads[:MOST_ERRORS])
    return Rtl(unit=unit, sources=sources, tree=tree, compilation=compilation, top=instance.body)


def parse(files: Sequence[SourceFile], sources: SourceManager) -> SyntaxTree:
    """Return the syntax tree of all files except headers, which the others can include."""
    buffers = {file.name: sources.assignText(file.name, file.text) for file in files}
    compiled = [buffer for name, buffer in buffers.items() if not name.endswith(HEADERS)]
    return SyntaxTree.fromBuffers(compiled, sources)


def ports(unit: Unit) -> tuple[Port, ...]:
    """Return the ports of the unit's top module, in the order of its header.

    Raises ConfigError if the unit does not compile, or a port does not consist of bits.
    """
    return ports_of(elaborate(unit))


def ports_of(rtl: Rtl) -> tuple[Port, ...]:
    """Return the ports of the design's top module, in the order of its header."""
    made: list[Port] = []
    for symbol in cast("Sequence[Symbol]", rtl.top.portList):
        direction = _DIRECTIONS.get(symbol.direction) if isinstance(symbol, PortSymbol) else None
        if not isinstance(symbol, PortSymbol) or direction is None or not symbol.type.isIntegral:
            raise ConfigError(
                f"design {rtl.unit.name}: port {symbol.name!r} of {rtl.unit.top} needs to be an "
                "input, output or inout of bits, found another kind; wrap the module in one that "
                "has such ports"
            )
        made.append(Port(name=symbol.name, direction=direction, width=symbol.type.bitWidth))
    return tuple(made)


def _compile_error(unit: Unit, reasons: Sequence[str]) -> ConfigError:
    return ConfigError(f"design {unit.name} does not compile:\n" + "\n".join(reasons))


def _faults(unit: Unit) -> Iterator[str]:
    if all(file.name.endswith(HEADERS) for file in unit.files):
        yield f"it needs a file that does not end in {' or '.join(HEADERS)}, as headers do"
    for file in unit.files:
        yield from _foreign_includes(file, unit)


def _foreign_includes(file: SourceFile, unit: Unit) -> Iterator[str]:
    """Yield a message for each ``include`` of a file outside the unit."""
    words, _ = read(file.text)
    known = {f'"{each.name}"' for each in unit.files}
    positions = Positions(file.text.encode())
    for word, after in pairwise((*words, *words[-1:])):
        if (word.kind, word.name) == ("directive", "include") and after.name not in known:
            line, column = positions.of(word.offset)
            yield f"{file.name}:{line}:{column}: error: {INCLUDES}"


def _has_read(sources: SourceManager) -> bool:
    """Return whether pyslang read a file of the machine, for an ``include`` built by macros."""
    return any(sources.getFullPath(each).is_absolute() for each in sources.getAllBuffers())


def _file_reads(top: InstanceSymbol, sources: SourceManager) -> list[str]:
    """Return a message for each call that reads a file in the elaborated design."""
    found: list[str] = []

    def visit(node: object) -> VisitAction:
        if isinstance(node, CallExpression) and node.isSystemCall and node.subroutineName in READS:
            _, place = located(sources, node.sourceRange.start)
            found.append(
                f"{place}: error: {node.subroutineName} reads a file, and a design has none "
                "but its sources; write the values into them"
            )
        return VisitAction.Advance

    top.visit(visit)
    return found


def _errors(compilation: Compilation, sources: SourceManager, names: set[str]) -> list[str]:
    engine = DiagnosticEngine(sources)
    found = [each for each in compilation.getAllDiagnostics() if each.isError()]
    return [
        f"{_place(each, sources, names)}error: {engine.formatMessage(each)}"
        for each in found[:MOST_ERRORS]
    ]


def _place(diagnostic: Diagnostic, sources: SourceManager, names: set[str]) -> str:
    """Return the diagnostic's place as a prefix; empty if it is in none of the unit's files."""
    name, place = located(sources, diagnostic.location)
    return f"{place}: " if name in names else ""


def located(sources: SourceManager, location: SourceLocation) -> tuple[str, str]:
    """Return the file of a location, after macro expansion, and ``file:line:column``."""
    at = sources.getFullyExpandedLoc(location)
    name = sources.getFileName(at)
    return name, f"{name}:{sources.getLineNumber(at)}:{sources.getColumnNumber(at)}"

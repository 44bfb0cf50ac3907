"""Elaborates a unit's RTL with pyslang: its ports and its errors.

All files are one compilation unit, as for Verilator: a macro of one file is defined in the files
after it. Files that end in ``.svh`` or ``.vh`` are headers: they are not compiled by themselves.
Only the unit's own files may be read. An ``include`` of another file is refused before pyslang sees
it. If macros build such an ``include``, the design is refused afterwards, and the error shows
nothing of the file.

A design may be foreign text, so `elaborate` first reads it in a process with limits. A text that is
nested too deeply or takes too much ends that process.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

from pyslang import (
    Bag,
    Diagnostic,
    DiagnosticEngine,
    Diags,
    SourceLocation,
    SourceManager,
    TimeScale,
)
from pyslang.ast import (
    ArgumentDirection,
    CallExpression,
    Compilation,
    CompilationFlags,
    CompilationOptions,
    EvalContext,
    Expression,
    InstanceBodySymbol,
    InstanceSymbol,
    PortSymbol,
    Symbol,
)
from pyslang.parsing import PreprocessorOptions
from pyslang.syntax import SyntaxTree

from coevolve.environments.hdl.gate.elaboration import check_design
from coevolve.environments.hdl.gate.rules import LOADS
from coevolve.environments.hdl.gate.tokens import Positions, Word, read
from coevolve.environments.hdl.nodes import nodes
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
    | CompilationFlags.AllowTopLevelIfacePorts
    | CompilationFlags.AllowUseBeforeDeclare
    | CompilationFlags.RelaxEnumConversions
    | CompilationFlags.RelaxStringConversions
)
"""Constructs beyond the standard that simulators accept."""

INCLUDES = (
    "`include needs the plain name, as a string, of one of the design's own files; give what is "
    "included as one of them"
)

TOLERATED = frozenset({Diags.AssignToNet, Diags.InvalidSpecifySource, Diags.TimeScaleFirstInScope})
"""Errors of pyslang in what Verilator takes, at least in some form; Verilator decides."""

PREDEFINES = ("VERILATOR=1", "verilator=1", "verilator3=1", "SYSTEMVERILOG=1", "VERILATOR_TIMING=1")
"""Macros that Verilator sets; both read the same branches of an ``ifdef``."""

_UNNAMED = "<unnamed_buffer"
"""How pyslang's names of the places of these macros begin."""

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
    rtl = elaborate_here(unit)
    if reads := _file_reads(rtl):
        raise _compile_error(unit, reads[:MOST_ERRORS])
    return rtl


def elaborate_here(unit: Unit, *, faulty: bool = False) -> Rtl:
    """Return the elaborated design, without limits on time and memory, whatever files it reads.

    Raises ConfigError where the design does not compile by itself; ``faulty`` takes it all the
    same if it has its top.
    """
    if faults := list(_faults(unit)):
        raise _compile_error(unit, faults)
    sources = SourceManager()
    tree = parse(unit.files, sources)
    if _has_read(sources, unit):
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
    if errors and not faulty:
        raise _compile_error(unit, errors)
    instance = cast("InstanceSymbol", compilation.getRoot().topInstances[0])
    return Rtl(unit=unit, sources=sources, tree=tree, compilation=compilation, top=instance.body)


def parse(files: Sequence[SourceFile], sources: SourceManager) -> SyntaxTree:
    """Return the syntax tree of all files except headers, which the others can include."""
    sources.setDisableProximatePaths(True)
    options = PreprocessorOptions()
    options.predefines = list(PREDEFINES)
    known = {file.name for file in files}
    buffers = {
        file.name: sources.assignText(file.name, _unreadable(file.text, known)) for file in files
    }
    compiled = [buffer for name, buffer in buffers.items() if not name.endswith(HEADERS)]
    return SyntaxTree.fromBuffers(compiled, sources, Bag([options]))


def _unreadable(text: str, known: Collection[str]) -> str:
    """Return the text with slashes in place of the names of included files that are not known.

    No file has such a name, so none is read, and an ``include`` that is not compiled does no harm.
    """
    made = bytearray(text.encode())
    for name in _included(text):
        if name.kind == "string" and name.name[1:-1] not in known:
            end = name.offset + len(name.name.encode()) - 1
            made[name.offset + 1 : end] = b"/" * (end - name.offset - 1)
    return made.decode()


def _included(text: str) -> Iterator[Word]:
    """Yield the word behind each ``include``."""
    words, _ = read(text)
    for word, after in pairwise((*words, *words[-1:])):
        if (word.kind, word.name) == ("directive", "include"):
            yield after


def ports(unit: Unit) -> tuple[Port, ...]:
    """Return the ports of the unit's top module, in the order of its header.

    Raises ConfigError if the unit does not compile.
    """
    return ports_of(elaborate(unit))


def ports_of(rtl: Rtl) -> tuple[Port, ...]:
    """Return the ports of bits of the design's top module, in the order of its header.

    A stimulus program drives no others: arrays and interfaces.
    """
    made: list[Port] = []
    for symbol in cast("Sequence[Symbol]", rtl.top.portList):
        direction = _DIRECTIONS.get(symbol.direction) if isinstance(symbol, PortSymbol) else None
        if isinstance(symbol, PortSymbol) and direction and symbol.type.isIntegral:
            made.append(Port(name=symbol.name, direction=direction, width=symbol.type.bitWidth))
    return tuple(made)


def _compile_error(unit: Unit, reasons: Sequence[str]) -> ConfigError:
    return ConfigError(f"design {unit.name} does not compile:\n" + "\n".join(reasons))


def _faults(unit: Unit) -> Iterator[str]:
    if all(file.name.endswith(HEADERS) for file in unit.files):
        yield f"it needs a file that does not end in {' or '.join(HEADERS)}, as headers do"
    for file in unit.files:
        yield from _built_includes(file)


def _built_includes(file: SourceFile) -> Iterator[str]:
    """Yield a message for each ``include`` that does not name its file in a string."""
    positions = Positions(file.text.encode())
    for name in _included(file.text):
        if name.kind != "string":
            line, column = positions.of(name.offset)
            yield f"{file.name}:{line}:{column}: error: {INCLUDES}"


def _has_read(sources: SourceManager, unit: Unit) -> bool:
    """Return whether pyslang read a file of the machine, for an ``include`` built by macros."""
    known = {file.name for file in unit.files}
    names = (sources.getRawFileName(each) for each in sources.getAllBuffers())
    return any(name not in known and not name.startswith(_UNNAMED) for name in names if name)


def _file_reads(rtl: Rtl) -> list[str]:
    """Return a message for each call that reads a file that the design does not have."""
    known = {each.name for each in rtl.unit.data}
    return [
        f"{place}: error: {task} reads {name or 'a file'}, and a design has no files but its "
        "sources and its data; give the file as data of the design (`coevolve hdl adopt` does)"
        for place, task, name in file_reads(rtl)
        if task not in LOADS or (name and name not in known)
    ]


def file_reads(rtl: Rtl) -> list[tuple[str, str, str]]:
    """Return place, system task and file of each call that reads one in the elaborated design.

    The name is empty where it is known only while the simulation runs, or is empty.
    """
    found: list[tuple[str, str, str]] = []
    context = EvalContext(rtl.compilation.getRoot())
    for node in nodes(rtl.top, CallExpression):
        if node.isSystemCall and node.subroutineName in READS:
            _, place = located(rtl.sources, node.sourceRange.start)
            first = next(iter(cast("Sequence[Expression]", node.arguments)), None)
            name = str(first.eval(context).convertToStr().value or "") if first else ""
            found.append((place, node.subroutineName, name))
    return found


def _errors(compilation: Compilation, sources: SourceManager, names: set[str]) -> list[str]:
    engine = DiagnosticEngine(sources)
    found = [
        each
        for each in compilation.getAllDiagnostics()
        if each.isError() and each.code not in TOLERATED
    ]
    return [
        f"{_place(each, sources, names)}error: "
        + (INCLUDES if each.code == Diags.CouldNotOpenIncludeFile else engine.formatMessage(each))
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

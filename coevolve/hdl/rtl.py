"""A unit's RTL as pyslang elaborates it: its ports, and what is wrong with it.

All files are one compilation unit, as for Verilator: a macro of one file holds in those after it.
Files that end in ``.svh`` or ``.vh`` are not compiled by themselves; others include them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pyslang import Bag, DiagnosticEngine, SourceManager, TimeScale
from pyslang.ast import (
    ArgumentDirection,
    Compilation,
    CompilationFlags,
    CompilationOptions,
    InstanceBodySymbol,
    InstanceSymbol,
    PortSymbol,
    Symbol,
)
from pyslang.syntax import SyntaxTree

from protocols.errors import ConfigError
from protocols.hardware import Port, SourceFile, Unit

HEADERS = (".svh", ".vh")
MOST_ERRORS = 8

TIMESCALE = "1ns/1ps"
"""Of modules that name none."""

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
"""What simulators accept beyond the standard."""

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


def elaborate(unit: Unit) -> Rtl:
    """Return the elaborated design. Raises ConfigError where it does not compile by itself."""
    sources = SourceManager()
    tree = parse(unit.files, sources)
    options = CompilationOptions()
    options.topModules = {unit.top}
    options.flags = LENIENT
    options.defaultTimeScale = TimeScale.fromString(TIMESCALE)
    compilation = Compilation(Bag([options]))
    compilation.addSyntaxTree(tree)
    names = sorted(each.name for each in compilation.getDefinitions())
    if unit.top not in names:
        raise ConfigError(
            f"design {unit.name}: needs its top module {unit.top!r} in "
            f"{', '.join(file.name for file in unit.files)}, found "
            f"{', '.join(names) or 'none'}"
        )
    errors = _errors(compilation, sources)
    if errors:
        raise ConfigError(f"design {unit.name} does not compile:\n" + "\n".join(errors))
    instance = cast("InstanceSymbol", compilation.getRoot().topInstances[0])
    return Rtl(unit=unit, sources=sources, tree=tree, compilation=compilation, top=instance.body)


def parse(files: Sequence[SourceFile], sources: SourceManager) -> SyntaxTree:
    """Return the syntax of all files but headers, which they can include."""
    buffers = {file.name: sources.assignText(file.name, file.text) for file in files}
    compiled = [buffer for name, buffer in buffers.items() if not name.endswith(HEADERS)]
    return SyntaxTree.fromBuffers(compiled, sources)


def ports(unit: Unit) -> tuple[Port, ...]:
    """Return the ports of the unit's top module, in the order of its header.

    Raises ConfigError where the unit does not compile, or a port is not made of bits.
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


def _errors(compilation: Compilation, sources: SourceManager) -> list[str]:
    engine = DiagnosticEngine(sources)
    found = [each for each in compilation.getAllDiagnostics() if each.isError()]
    return [
        f"{sources.getFileName(each.location)}:{sources.getLineNumber(each.location)}:"
        f"{sources.getColumnNumber(each.location)}: error: {engine.formatMessage(each)}"
        for each in found[:MOST_ERRORS]
    ]

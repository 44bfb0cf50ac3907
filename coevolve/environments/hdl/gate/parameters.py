"""Finds instances of the design whose parameters have other values than the design's own.

An instance may name parameters, in any form, as long as the values stay the same. pyslang compares
them, to name both values. Then they are left out, because Verilator names a module differently if
its parameters are written differently. `hdl.coverage.scopes` refuses what Verilator still finds
different, whatever a text shows to one of the two alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pyslang import SourceLocation, SourceManager, SVInt
from pyslang.ast import (
    Compilation,
    FieldSymbol,
    InstanceSymbol,
    PackedStructType,
    ParameterSymbol,
    RootSymbol,
    Type,
    TypeParameterSymbol,
    VisitAction,
)
from pyslang.syntax import HierarchyInstantiationSyntax, SyntaxNode

from coevolve.environments.hdl.designs.rtl import compilation_of, options_for, parse
from coevolve.environments.hdl.nodes import nodes
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit

ADOPT = "make the design by `coevolve hdl adopt --bench` with this testbench"
ONE = "count one of these instances, which differ, by --gate trusted and --instance"

_Symbol = ParameterSymbol | TypeParameterSymbol


def changed_parameters(root: RootSymbol, unit: Unit) -> Iterator[tuple[SourceLocation, str]]:
    """Yield place and message for each parameter of an instance of ``unit`` that has changed.

    ``root`` is the elaborated testbench with the design.
    """
    found = {each: [*parameters(each)] for each in instances(root, unit.top)}
    overridden = [
        (instance, each) for instance, own in found.items() for each in own if each.isOverridden
    ]
    if not overridden:
        return
    remedy = ADOPT if len({tuple(map(_shown, each)) for each in found.values()}) == 1 else ONE
    own, _alive = _own(unit)
    for instance, parameter in overridden:
        here, expected = _shown(parameter), own.get(parameter.name, "")
        if expected and here != expected:
            yield (
                instance.location,
                f"parameter {parameter.name} of {unit.top} is {here}, and the design's is "
                f"{expected}; leave it out, or give the design's value, or {remedy}",
            )


def without_parameters(testbench: str, unit: Unit, top: str = "") -> str:
    """Return the text with blanks in place of the parameters of the design's instances.

    Parameters that a macro writes, also partly, stay, and below the module ``top`` those of
    instances with other values than the design's; without a ``top`` there are none.
    """
    sources = SourceManager()
    bench = SourceFile(name="tb.sv", text=testbench)
    kept = frozenset(_changed_places(bench, unit, top)) if top else frozenset[int]()
    tree = parse([bench], sources)
    buffer = tree.root.sourceRange.start.buffer
    text = bytearray(testbench.encode())

    for node in nodes(tree.root, HierarchyInstantiationSyntax):
        parameters = cast("SyntaxNode | None", node.parameters)
        if node.type.valueText != unit.top or not parameters:
            continue
        ends = parameters.sourceRange.start, parameters.sourceRange.end
        if all(sources.isFileLoc(end) and end.buffer == buffer for end in ends):
            start, end = (each.offset for each in ends)
            names = range(end, node.sourceRange.end.offset)
            if kept.isdisjoint(names):
                text[start:end] = re.sub(rb"[^\r\n]", b" ", text[start:end])
    return text.decode()


def _changed_places(bench: SourceFile, unit: Unit, top: str) -> Iterator[int]:
    """Yield the offset of the name of each instance with other values than the design's."""
    sources = SourceManager()
    compilation = compilation_of(parse((*unit.files, bench), sources), options_for(top))
    for where, _ in changed_parameters(compilation.getRoot(), unit):
        if sources.getFileName(where) == bench.name:
            yield where.offset


def instances(root: RootSymbol, module: str) -> list[InstanceSymbol]:
    """Return the instances of the module that are in no other one of it."""
    found: list[InstanceSymbol] = []

    def visit(node: object) -> VisitAction:
        if isinstance(node, InstanceSymbol) and node.definition.name == module:
            found.append(node)
            return VisitAction.Skip
        return VisitAction.Advance

    root.visit(visit)
    return found


def parameters(instance: InstanceSymbol) -> Iterator[_Symbol]:
    """Yield the parameters of an instance, local ones too."""
    for each in cast("Iterable[object]", instance.body.parameters):
        if isinstance(each, ParameterSymbol | TypeParameterSymbol):
            yield each


def _own(unit: Unit) -> tuple[Mapping[str, str], Compilation]:
    """Return the design's own values, and what has to outlive them."""
    tree = parse(unit.files, SourceManager())
    compilation = compilation_of(tree, options_for(unit.top))
    tops = cast("Sequence[InstanceSymbol]", compilation.getRoot().topInstances)
    return {each.name: _shown(each) for top in tops for each in parameters(top)}, compilation


def type_text(parameter: TypeParameterSymbol) -> str:
    """Return the type as text that means the same in any place.

    Unsigned bits are ``logic``, whatever their name; packed structures have their fields.
    """
    return _type_text(parameter.targetType.type)


def _type_text(found: Type) -> str:
    plain = found.canonicalType
    if isinstance(plain, PackedStructType):
        fields = [each for each in cast("Iterable[object]", plain) if isinstance(each, FieldSymbol)]
        inside = " ".join(f"{_type_text(each.type)} {each.name};" for each in fields)
        return f"struct packed {{{inside}}}"
    if not plain.isIntegral or plain.isSigned:
        return str(found)
    return f"logic[{plain.bitWidth - 1}:0]" if plain.bitWidth > 1 else "logic"


def _shown(parameter: _Symbol) -> str:
    """Return the value as text, the same for the same number, or bits, of any form."""
    if isinstance(parameter, TypeParameterSymbol):
        return type_text(parameter)
    value = cast("Any", parameter.value).value
    if isinstance(value, SVInt) and not value.hasUnknown:
        return str(int(value))
    return str(value)

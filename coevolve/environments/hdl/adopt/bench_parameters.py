"""Reads what a testbench makes of a design: its parameters, and the files that it needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from pyslang import SourceManager, SVInt
from pyslang.ast import (
    InstanceBodySymbol,
    InstanceSymbol,
    ParameterSymbol,
    RootSymbol,
    TypeParameterSymbol,
    VisitAction,
)

from coevolve.environments.hdl.designs.rtl import compilation_of, options_for, parse
from coevolve.environments.hdl.gate.parameters import instances, parameters, type_text
from coevolve.environments.hdl.gate.testbench_top import top_module
from coevolve.environments.hdl.simulate.messages import NotCovered, SourceFile, Unit

PLAIN_BITS = 32


@dataclass(frozen=True, kw_only=True)
class BenchUse:
    """What a testbench makes of a design."""

    parameters: dict[str, str]
    """The values, as text, that it gives to the instance's parameters."""

    files: frozenset[str]
    """The files of all modules that it uses."""


def bench_use(testbench: str, unit: Unit, told: str = "") -> BenchUse | NotCovered:
    """Return what the testbench makes of the design; ``told`` is its top module if known."""
    sources = SourceManager()
    bench = SourceFile(name="tb.sv", text=testbench)
    tree = parse((*unit.files, bench), sources)
    top = bench_top(testbench, unit, told)
    if isinstance(top, NotCovered):
        return top
    root = compilation_of(tree, options_for(top)).getRoot()
    found = [dict(_changed(each)) for each in instances(root, unit.top)]
    if not found or any(each != found[0] for each in found):
        return NotCovered(
            message=f"needs instances of {unit.top} with the same parameters, found {len(found)} "
            "with others; give those of one by --parameter"
        )
    return BenchUse(parameters=found[0], files=frozenset(used_files(root, sources)))


def bench_top(testbench: str, unit: Unit, told: str = "") -> str | NotCovered:
    """Return the module of the testbench to simulate."""
    bench = SourceFile(name="tb.sv", text=testbench)
    return top_module(parse([bench], SourceManager()).root, unit, told)


def used_files(top: RootSymbol | InstanceBodySymbol, sources: SourceManager) -> set[str]:
    """Return the files of the modules and interfaces below ``top``."""
    found: set[str] = set()

    def visit(node: object) -> VisitAction:
        if isinstance(node, InstanceSymbol) and not node.body.isUninstantiated:
            found.add(sources.getFileName(node.definition.location))
        return VisitAction.Advance

    top.visit(visit)
    return found


def _changed(instance: Any) -> Iterator[tuple[str, str]]:
    for each in parameters(instance):
        if each.isOverridden:
            yield each.name, _written(each)


def _written(parameter: ParameterSymbol | TypeParameterSymbol) -> str:
    """Return the value as SystemVerilog."""
    if isinstance(parameter, TypeParameterSymbol):
        return type_text(parameter)
    found = cast("Any", parameter.value)
    value = found.value
    if isinstance(value, SVInt):
        if value.hasUnknown:
            return str(value)
        number = int(value)
        if -(2 ** (PLAIN_BITS - 1)) <= number < 2 ** (PLAIN_BITS - 1):
            return str(number)
        return f"{value.bitWidth}'h{number & ((1 << value.bitWidth) - 1):x}"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(found).replace("[", "'{").replace("]", "}")

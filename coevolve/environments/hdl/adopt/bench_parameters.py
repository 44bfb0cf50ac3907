"""Reads what a testbench makes of a design: its parameters, and the files that it needs."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from pyslang import SourceManager, SVInt
from pyslang.ast import (
    InstanceBodySymbol,
    InstanceSymbol,
    ParameterSymbol,
    RootSymbol,
    TypeParameterSymbol,
)

from coevolve.environments.hdl.coverage.scopes import is_called
from coevolve.environments.hdl.designs.rtl import compilation_of, options_for, parse
from coevolve.environments.hdl.gate.elaboration import BenchUse
from coevolve.environments.hdl.gate.parameters import instances, parameters, type_text
from coevolve.environments.hdl.gate.testbench_top import top_module
from coevolve.environments.hdl.nodes import nodes
from coevolve.environments.hdl.simulate.messages import NotCovered, SourceFile, Unit

PLAIN_BITS = 32


def bench_use(
    testbench: str, unit: Unit, told: str = "", instance: str = ""
) -> BenchUse | NotCovered:
    """Return what the testbench makes of the design; ``told`` is its top module if known.

    Of several instances one called ``instance``, or of any name, is meant: the first that does not
    change the others, which take the values that they leave out from the design.
    """
    sources = SourceManager()
    bench = SourceFile(name="tb.sv", text=testbench)
    tree = parse((*unit.files, bench), sources)
    top = bench_top(testbench, unit, told)
    if isinstance(top, NotCovered):
        return top
    root = compilation_of(tree, options_for(top)).getRoot()
    found = {each.hierarchicalPath: _values(each) for each in instances(root, unit.top)}
    named = [path for path in found if is_called(path, instance)]
    if not named:
        called = f" called {instance!r}" if instance else ""
        return NotCovered(
            message=f"the testbench needs an instance of {unit.top}{called} below {top}, found "
            f"{', '.join(found) or 'none'}"
        )
    conflicts = {path: next(_conflicts(path, found), "") for path in named}
    meant = next((path for path in named if not conflicts[path]), named[0])
    counted = tuple(path for path in named if found[path].effective == found[meant].effective)
    return BenchUse(
        parameters=found[meant].given,
        files=frozenset(used_files(root, sources)),
        counted=counted,
        others=tuple(path for path in found if path not in counted),
        conflict=conflicts[meant],
    )


class _Values(NamedTuple):
    """Values of an instance's parameters, as text by name."""

    given: dict[str, str]
    effective: dict[str, str]


def _conflicts(path: str, found: Mapping[str, _Values]) -> Iterator[str]:
    """Yield why the values of one instance would change those of another."""
    for other, values in found.items():
        missing = found[path].given.keys() - values.given.keys()
        changed = {
            each for each in missing if found[path].given[each] != values.effective.get(each)
        }
        if changed:
            yield (
                f"{path} gives {', '.join(sorted(changed))}, and {other} leaves it out; give it "
                f"there too, so that {path} can be counted"
            )


def bench_top(testbench: str, unit: Unit, told: str = "") -> str | NotCovered:
    """Return the module of the testbench to simulate."""
    bench = SourceFile(name="tb.sv", text=testbench)
    return top_module(parse([bench], SourceManager()).root, unit, told)


def used_files(top: RootSymbol | InstanceBodySymbol, sources: SourceManager) -> set[str]:
    """Return the files of the modules and interfaces below ``top``."""
    return {
        sources.getFileName(each.definition.location)
        for each in nodes(top, InstanceSymbol)
        if not each.body.isUninstantiated
    }


def _values(instance: InstanceSymbol) -> _Values:
    free = [each for each in parameters(instance) if not each.isLocalParam]
    return _Values(
        given={each.name: _written(each) for each in free if each.isOverridden},
        effective={each.name: _written(each) for each in free},
    )


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

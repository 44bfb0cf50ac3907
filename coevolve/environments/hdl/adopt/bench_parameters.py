"""Reads the parameters that a testbench gives to the design's instance."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from pyslang import SourceManager, SVInt
from pyslang.ast import ParameterSymbol, TypeParameterSymbol

from coevolve.environments.hdl.adopt.bench_text import bench_text
from coevolve.environments.hdl.designs.rtl import compilation_of, options_for, parse
from coevolve.environments.hdl.gate.parameters import instances, parameters
from coevolve.environments.hdl.gate.testbench_top import top_module
from coevolve.environments.hdl.simulate.messages import NotCovered, SourceFile, Unit
from protocols.errors import ConfigError

PLAIN_BITS = 32


def bench_parameters(
    paths: Sequence[Path], unit: Unit, include: Sequence[Path] = ()
) -> dict[str, str]:
    """Return the values, as text, of the parameters that the bench changes.

    Raises ConfigError where the bench has no instance of the design, or several with others.
    """
    found = instance_parameters(bench_text(paths, include).text, unit)
    if isinstance(found, NotCovered):
        raise ConfigError(f"{paths[0]}: {found.message}")
    return found


def instance_parameters(testbench: str, unit: Unit, told: str = "") -> dict[str, str] | NotCovered:
    """Return the values, as text, of the parameters that the testbench gives to the design."""
    sources = SourceManager()
    bench = SourceFile(name="tb.sv", text=testbench)
    tree = parse((*unit.files, bench), sources)
    top = top_module(parse([bench], SourceManager()).root, unit, told)
    if isinstance(top, NotCovered):
        return top
    compilation = compilation_of(tree, options_for(top))
    found = [dict(_changed(each)) for each in instances(compilation.getRoot(), unit.top)]
    if not found or any(each != found[0] for each in found):
        return NotCovered(
            message=f"needs instances of {unit.top} with the same parameters, found {len(found)} "
            "with others; give those of one by --parameter"
        )
    return found[0]


def _changed(instance: Any) -> Iterator[tuple[str, str]]:
    for each in parameters(instance):
        if each.isOverridden:
            yield each.name, _written(each)


def _written(parameter: ParameterSymbol | TypeParameterSymbol) -> str:
    """Return the value as SystemVerilog."""
    if isinstance(parameter, TypeParameterSymbol):
        return str(parameter.targetType.type)
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

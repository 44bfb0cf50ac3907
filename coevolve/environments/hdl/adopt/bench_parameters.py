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
    text = bench_text(paths, include).text
    sources = SourceManager()
    files = (*unit.files, SourceFile(name="tb.sv", text=text))
    tree = parse(files, sources)
    own = parse([files[-1]], SourceManager())
    top = top_module(own.root, unit, "")
    if isinstance(top, NotCovered):
        raise ConfigError(f"{paths[0]}: {top.message}")
    compilation = compilation_of(tree, options_for(top))
    found = [dict(_changed(each)) for each in instances(compilation.getRoot(), unit.top)]
    if not found:
        raise ConfigError(f"{paths[0]}: needs an instance of {unit.top}, found none")
    if any(each != found[0] for each in found):
        raise ConfigError(
            f"{paths[0]}: needs instances of {unit.top} with the same parameters, found several; "
            "give those of one by --parameter"
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

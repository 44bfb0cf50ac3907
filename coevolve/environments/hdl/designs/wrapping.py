"""Writes modules around a design: one that only instantiates it, and one with ports of bits alone.

The second lets stimulus programs drive arrays and interfaces. Its port for an array of bits has all
elements side by side, the leftmost one in the lowest bits. A port of an interface becomes a port
for each signal of its modport, and one for each input of the interface, which has the interface's
name for it, such as ``clk``, and is shared by all ports of that name. Without a modport nothing
says who drives a signal, so such an interface is left alone, as are ports of other types.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, cast

import msgspec
from pyslang import ConstantRange
from pyslang.ast import (
    ArgumentDirection,
    DefinitionSymbol,
    FixedSizeUnpackedArrayType,
    InstanceArraySymbol,
    InstanceBodySymbol,
    InstanceSymbol,
    InterfacePortSymbol,
    ModportPortSymbol,
    PortSymbol,
    Symbol,
    Type,
)

from coevolve.environments.hdl.designs.rtl import Rtl, located
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit
from protocols.errors import ConfigError

MOST_ELEMENTS = 1024
"""Of an array of a port, or of interfaces."""

_WORDS = {
    ArgumentDirection.In: "input",
    ArgumentDirection.Out: "output",
    ArgumentDirection.InOut: "inout wire",
}


def has_interfaces(rtl: Rtl) -> bool:
    """Return whether the design has ports of interfaces."""
    return any(isinstance(port, InterfacePortSymbol) for port in _ports(rtl.top))


def alone(rtl: Rtl, name: str) -> str:
    """Return a module ``name`` with an instance ``dut`` of the design and its ports' interfaces.

    Raises ConfigError for a port of any interface.
    """
    around = _Around(rtl=rtl)
    joined = [
        f".{port.name}({around.interface(port)})"
        for port in _ports(rtl.top)
        if isinstance(port, InterfacePortSymbol)
    ]
    around.lines.append(f"  {rtl.unit.top} dut ({', '.join(joined)});")
    return "\n".join((f"module {name};", *around.lines, "  initial $finish;", "endmodule", ""))


def flat(rtl: Rtl) -> Unit:
    """Return the design inside of a module with ports of bits alone, which is the new top.

    Raises ConfigError for a port of any interface, and for a long array.
    """
    around = _Around(rtl=rtl)
    name = f"{rtl.unit.top}_flat"
    joined = [f".{port.name}({around.connection(port)})" for port in _ports(rtl.top)]
    around.lines.append(f"  {rtl.unit.top} inner ({', '.join(joined)});")
    ports = ", ".join(f"{words} {port}" for port, words in around.ports.items())
    text = f"/*verilator coverage_off*/\nmodule {name} ({ports});\n"
    text += "\n".join((*around.lines, "endmodule", ""))
    file = SourceFile(name=f"{name}.sv", text=text)
    return msgspec.structs.replace(rtl.unit, files=(*rtl.unit.files, file), top=name)


@dataclass(kw_only=True)
class _Around:
    """A module around the design: its ports with their types, and its lines."""

    rtl: Rtl
    ports: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[str] = field(default_factory=list[str])
    instances: dict[str, str] = field(default_factory=dict[str, str])
    """The first instance of each interface that is no array."""

    def connection(self, port: Symbol) -> str:
        """Return what a port of the design is connected to; empty to leave it alone."""
        if isinstance(port, InterfacePortSymbol):
            name = self.interface(port, driven=True)
            self._signals(port, name)
            return name
        if not isinstance(port, PortSymbol) or port.direction not in _WORDS:
            return ""
        if port.type.isIntegral:
            return self._port(port.name, port.direction, port.type.bitWidth)
        return self._array(port, port.type.canonicalType)

    def interface(self, port: InterfacePortSymbol, *, driven: bool = False) -> str:
        """Add an instance of the interface of a port, and of those it needs; return its name.

        With ``driven``, its inputs are ports of the module.
        """
        definition = cast("DefinitionSymbol | None", port.interfaceDef)
        if definition is None:
            _, place = located(self.rtl.sources, port.location)
            raise ConfigError(
                f"{place}: port {port.name!r} of {self.rtl.unit.top} needs an interface with a "
                "name, found any interface; adopt a module that instantiates this one"
            )
        joined: list[str] = []
        for each in _own_ports(port):
            if isinstance(each, InterfacePortSymbol):
                known = self.instances.get(_definition(each))
                joined.append(f".{each.name}({known or self.interface(each, driven=driven)})")
            elif driven and isinstance(each, PortSymbol) and _is_input(each):
                self.ports.setdefault(each.name, _typed(each.direction, each.type.bitWidth))
                joined.append(f".{each.name}({each.name})")
        name = f"{port.name}_{len(self.lines)}"
        ranges = cast("Sequence[ConstantRange]", port.declaredRange)
        if not ranges:
            self.instances.setdefault(definition.name, name)
        sizes = "".join(f" [{each.left}:{each.right}]" for each in ranges)
        self.lines.append(f"  {definition.name} {name}{sizes} ({', '.join(joined)});")
        return name

    def _port(self, name: str, direction: ArgumentDirection, width: int) -> str:
        """Add a port of the module; return its name, which is that of no other port."""
        typed = _typed(direction, width)
        while self.ports.get(name, typed) != typed or (name in self.ports and "input" not in typed):
            name += "_"
        self.ports[name] = typed
        return name

    def _array(self, port: PortSymbol, whole: Type) -> str:
        """Add a port for an array of bits, and what connects its elements."""
        sizes: list[ConstantRange] = []
        while isinstance(whole, FixedSizeUnpackedArrayType):
            sizes.append(whole.range)
            whole = whole.elementType.canonicalType
        if not whole.isIntegral or port.direction == ArgumentDirection.InOut:
            return ""
        width = whole.bitWidth
        elements = self._elements(port, sizes)
        made = self._port(port.name, port.direction, width * len(elements))
        inner = f"{port.name}_{len(self.lines)}"
        ranges = "".join(f" [{each.left}:{each.right}]" for each in sizes)
        self.lines.append(f"  logic [{width - 1}:0] {inner}{ranges};")
        for number, element in enumerate(elements):
            outside = f"{made}[{number * width} +: {width}]"
            self._assign(f"{inner}{element}", outside, port.direction)
        return inner

    def _elements(self, port: Symbol, sizes: Sequence[ConstantRange]) -> list[str]:
        """Return the indices of each element, as text, the leftmost first."""
        count = 1
        for each in sizes:
            count *= each.width
        if count > MOST_ELEMENTS:
            _, place = located(self.rtl.sources, port.location)
            raise ConfigError(
                f"{place}: port {port.name!r} of {self.rtl.unit.top} needs at most {MOST_ELEMENTS} "
                f"elements to become bits, found {count}; adopt it without --flat"
            )
        every = product(*(_indices(each) for each in sizes))
        return ["".join(f"[{each}]" for each in indices) for indices in every]

    def _signals(self, port: InterfacePortSymbol, name: str) -> None:
        """Add a port for each signal of the modport, for each element of an array of them."""
        modport = cast("Any", port.connection)[1] if port.connection else None
        own = {each.name for each in _own_ports(port)}
        for element in self._elements(port, cast("Sequence[ConstantRange]", port.declaredRange)):
            suffix = element.replace("[", "_").replace("]", "")
            for each in cast("Iterable[object]", modport or ()):
                if not isinstance(each, ModportPortSymbol) or each.name in own:
                    continue
                if each.type.isIntegral and each.direction in (
                    ArgumentDirection.In,
                    ArgumentDirection.Out,
                ):
                    outside = self._port(
                        f"{port.name}{suffix}_{each.name}", each.direction, each.type.bitWidth
                    )
                    self._assign(f"{name}{element}.{each.name}", outside, each.direction)

    def _assign(self, inside: str, outside: str, direction: ArgumentDirection) -> None:
        pair = (inside, outside) if direction == ArgumentDirection.In else (outside, inside)
        self.lines.append("  assign {} = {};".format(*pair))


def _ports(body: InstanceBodySymbol) -> list[Symbol]:
    return list(cast("Iterable[Symbol]", body.portList))


def _own_ports(port: InterfacePortSymbol) -> list[Symbol]:
    """Return the ports of a port's interface; none where it is not known."""
    found = cast("Any", port.connection)[0] if port.connection else None
    while isinstance(found, InstanceArraySymbol):
        found = cast("Any", found.elements)[0]
    return _ports(found.body) if isinstance(found, InstanceSymbol) else []


def _definition(port: InterfacePortSymbol) -> str:
    return cast("Any", port.interfaceDef).name if port.interfaceDef else ""


def _is_input(port: PortSymbol) -> bool:
    return port.direction == ArgumentDirection.In and port.type.isIntegral


def _typed(direction: ArgumentDirection, width: int) -> str:
    return _WORDS[direction] + (f" [{width - 1}:0]" if width > 1 else "")


def _indices(found: ConstantRange) -> Iterator[int]:
    step = 1 if found.left <= found.right else -1
    yield from range(found.left, found.right + step, step)

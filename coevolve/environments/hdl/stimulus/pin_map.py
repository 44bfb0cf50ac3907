"""Wraps a design in pins of at most 64 bits that a C++ program can drive.

The wrapper is a module like a testbench, with the same names for itself and its instance, so that
the coverage points are the same as with a testbench. The pins get names of their own, because a
port's name may have a meaning in C++.
"""

from collections.abc import Iterable, Iterator, Sequence

from coevolve.environments.hdl.simulate.messages import Port, Unit
from coevolve.environments.hdl.stimulus.program import WORD_BITS, Pins, word_bits


def module(unit: Unit, ports: Sequence[Port], pins: Pins) -> str:
    """Return the text of the wrapper module."""
    inputs = {port.name: f"i{index}" for index, port in enumerate(pins.inputs)}
    outputs = {port.name: f"o{index}" for index, port in enumerate(pins.outputs)}
    header = ["input i_clock", "input i_reset"]
    header += [f"input [{word_bits(p) - 1}:0] {inputs[p.name]}" for p in pins.inputs]
    header += [f"output [{word_bits(p) - 1}:0] {outputs[p.name]}" for p in pins.outputs]
    lines = [f"module tb({', '.join(header)});"]
    connected = {unit.clock: "i_clock"} if unit.clock else {}
    if unit.reset:
        connected[unit.reset.port] = "i_reset"
    for port in ports:
        if port.direction == "out":
            wire = f"w_{outputs[port.name]}"
            lines.append(f"wire [{port.width - 1}:0] {wire};")
            lines.append(f"assign {outputs[port.name]} = {wire}[{word_bits(port) - 1}:0];")
            connected[port.name] = wire
        elif port.name in inputs:
            copies = -(-port.width // WORD_BITS)
            connected[port.name] = f"{{{copies}{{{inputs[port.name]}}}}}"
    joined = ", ".join(f".{name}({pin})" for name, pin in connected.items())
    lines.append(f"{unit.top} dut({joined});")
    return "\n".join([*lines, "endmodule", ""])


def header(unit: Unit, pins: Pins) -> str:
    """Return the C++ header that describes the pins."""
    active = "a" if unit.reset and unit.reset.active == "high" else "!a"
    drives = (f"case {n}: m.i{n} = word; break;" for n in range(len(pins.inputs)))
    reads = (f"case {n}: return m.o{n};" for n in range(len(pins.outputs)))
    return "\n".join(
        (
            "namespace coevolve::pins {",
            f"constexpr size_t inputs = {len(pins.inputs)};",
            f"constexpr size_t outputs = {len(pins.outputs)};",
            f"constexpr bool clocked = {'true' if unit.clock else 'false'};",
            f"constexpr int bits[] = {{{', '.join(_bits(pins.inputs))}}};",
            "inline void clock(Vtb& m, bool high) { m.i_clock = high; }",
            f"inline void reset(Vtb& m, bool a) {{ m.i_reset = {active}; }}",
            f"inline void drive(Vtb& m, size_t port, uint64_t word) {{ {_switch(drives)} }}",
            f"inline uint64_t read(Vtb& m, size_t port) {{ {_switch(reads)} return 0; }}",
            "}",
            "",
        )
    )


def _bits(ports: Iterable[Port]) -> Iterator[str]:
    """Yield the ports' widths and a 0, because an array needs at least one item."""
    for port in ports:
        yield str(word_bits(port))
    yield "0"


def _switch(cases: Iterable[str]) -> str:
    return f"switch (port) {{ {' '.join(cases)} default: break; }}"

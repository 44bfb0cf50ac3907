"""Prints a stimulus program as the SystemVerilog testbench that an engineer would write for it.

It has the module ``tb``, the instance ``dut``, a task for one clock cycle, and an initial block
with a comment for each phase. It draws the same random words in the same order as
`hdl.stimulus.harness`, and drives and reads at the same times, so it has the same coverage. It
declares only what the program uses. Ports whose type is an enumeration, a structure or an unpacked
array are not supported; an ``inout`` stays unconnected.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from coevolve.environments.hdl.simulate.messages import Port, Unit
from coevolve.environments.hdl.stimulus.language import parse
from coevolve.environments.hdl.stimulus.names import Names, names
from coevolve.environments.hdl.stimulus.phases import phases
from coevolve.environments.hdl.stimulus.program import (
    WORD_BITS,
    ApplyReset,
    Await,
    Chance,
    Change,
    Drive,
    Program,
    Randomize,
    Repeat,
    Statement,
    Step,
    first_state,
    word_bits,
)


def render(program: str, unit: Unit, ports: Sequence[Port], seed: int) -> str:
    """Return the testbench of a program's text. Raises StimulusError."""
    return printed(parse(program, ports, unit.clock, unit.reset), unit, ports, seed)


def printed(program: Program, unit: Unit, ports: Sequence[Port], seed: int) -> str:
    """Return the testbench of a program that was parsed for the unit's ports."""
    bench = _Bench(
        program=program,
        unit=unit,
        ports={each.name: each for each in ports},
        names=names(program, ports, clocked=bool(unit.clock)),
    )
    return "".join(f"{line}\n" for line in _module(bench, seed))


class _Bench(msgspec.Struct, frozen=True, kw_only=True):
    program: Program
    unit: Unit
    ports: dict[str, Port]
    names: Names

    @property
    def clock(self) -> str:
        return self.names.signal[self.unit.clock] if self.unit.clock else ""


def _module(bench: _Bench, seed: int) -> Iterator[str]:
    yield "`timescale 1ns/1ps"
    yield ""
    yield f"// Stimulus for {bench.unit.top}."
    yield "module tb;"
    sections = (
        _signals(bench),
        _instance(bench),
        _random_words(bench.names, seed),
        _modes(bench.names),
        _tick(bench),
        _reset(bench),
        _stimulus(bench),
    )
    printed = ["\n".join(section) for section in sections]
    yield "\n\n".join(filter(None, printed))
    yield "endmodule"


def _signals(bench: _Bench) -> Iterator[str]:
    reset = bench.unit.reset
    for port in bench.ports.values():
        name, word = bench.names.signal[port.name], bench.names.word[port.name]
        match port.direction:
            case "inout":
                yield f"  wire  {_range(port.width)}{name};"
            case "out":
                yield f"  logic {_range(port.width)}{name};"
            case "in" if name != word:
                copies = -(-port.width // WORD_BITS)
                yield f"  logic {_range(WORD_BITS)}{word} = 0;"
                yield f"  wire  {_range(port.width)}{name} = {{{copies}{{{word}}}}};"
            case "in":
                low = reset is not None and reset.port == port.name and reset.active == "low"
                yield f"  logic {_range(port.width)}{name} = {int(low)};"


def _instance(bench: _Bench) -> Iterator[str]:
    yield f"  {bench.unit.top} dut ("
    connected = [f"    .{port}({signal})" for port, signal in bench.names.signal.items()]
    yield ",\n".join(connected)
    yield "  );"


def _random_words(names: Names, seed: int) -> Iterator[str]:
    if not names.draws:
        return
    state = names.state
    yield "  // Random words (xorshift64), the same in every simulator."
    yield f"  logic [63:0] {state} = 64'h{first_state(seed):016x};"
    yield f"  function automatic logic [63:0] {names.draw}();"
    for shift in ("<< 13", ">> 7", "<< 17"):
        yield f"    {state} = {state} ^ ({state} {shift});"
    yield f"    return {state};"
    yield "  endfunction"


def _modes(names: Names) -> Iterator[str]:
    if names.random or names.chance:
        yield "  // Inputs that get a new value each cycle; chances are in eighths."
    for flag in names.random.values():
        yield f"  bit {flag} = 0;"
    for eighths in names.chance.values():
        yield f"  int {eighths} = 0;"


def _tick(bench: _Bench) -> Iterator[str]:
    names, clock = bench.names, bench.clock
    if clock:
        yield "  // One clock cycle: inputs change while the clock is low."
    else:
        yield "  // Time in which the outputs follow the inputs."
    yield f"  task automatic {names.tick}();"
    if clock:
        yield f"    {clock} = 0;"
    for port in bench.ports:
        word = names.word[port]
        if port in names.random:
            yield f"    if ({names.random[port]}) {word} = {names.draw}();"
        if port in names.chance:
            chance = names.chance[port]
            yield f"    if ({chance} > 0) {word} = {names.draw}() % 8 < {chance};"
    if clock:
        yield f"    #5 {clock} = 1;"
    yield "    #5;"
    yield "  endtask"


def _reset(bench: _Bench) -> Iterator[str]:
    reset, names = bench.unit.reset, bench.names
    if reset is None or not names.resets:
        return
    signal, active = names.signal[reset.port], int(reset.active == "high")
    yield f"  task automatic {names.reset}(input int cycles);"
    yield f"    {signal} = {active};"
    yield f"    repeat (cycles) {names.tick}();"
    yield f"    {signal} = {1 - active};"
    yield "  endtask"


def _stimulus(bench: _Bench) -> Iterator[str]:
    yield "  initial begin"
    yield "    #5;"
    for number, phase in enumerate(phases(bench.program.statements), 1):
        yield ""
        yield f"    // {number}. {phase.title}"
        for statement in phase.statements:
            yield from _code(statement, bench, "    ")
    yield ""
    yield "    // Let the last values settle."
    if bench.clock:
        yield f"    {bench.clock} = 0;"
    yield "    #5 $finish;"
    yield "  end"


def _code(statement: Statement, bench: _Bench, indent: str) -> Iterator[str]:
    names = bench.names
    match statement:
        case ApplyReset(cycles=cycles):
            yield f"{indent}{names.reset}({cycles});"
        case Step(cycles=cycles):
            yield f"{indent}{_repeat(cycles)}{names.tick}();"
        case Await(port=port, word=word, cycles=cycles):
            part = "[63:0]" if bench.ports[port].width > WORD_BITS else ""
            other = f"{names.signal[port]}{part} != {_literal(bench.ports[port], word)}"
            yield f"{indent}{_repeat(cycles)}if ({other}) {names.tick}();"
        case Repeat(times=times, body=body):
            yield f"{indent}repeat ({times}) begin"
            for inner in body:
                yield from _code(inner, bench, indent + "  ")
            yield f"{indent}end"
        case Drive() | Change() | Randomize() | Chance():
            parts = (*_mode_assignments(statement, names), *_assignments(statement, bench))
            if code := " ".join(parts):
                yield indent + code
        case _:
            assert_never(statement)


def _mode_assignments(
    statement: Drive | Change | Randomize | Chance, names: Names
) -> Iterator[str]:
    if flag := names.random.get(statement.port):
        yield f"{flag} = {int(isinstance(statement, Randomize))};"
    if chance := names.chance.get(statement.port):
        yield f"{chance} = {statement.eighths if isinstance(statement, Chance) else 0};"


def _assignments(statement: Drive | Change | Randomize | Chance, bench: _Bench) -> Iterator[str]:
    port, word = bench.ports[statement.port], bench.names.word[statement.port]
    top = word_bits(port) - 1
    match statement:
        case Drive(word=value):
            yield f"{word} = {_literal(port, value)};"
        case Change(way="inc"):
            yield f"{word} = {word} + 1;"
        case Change(way="inv"):
            yield f"{word} = ~{word};"
        case Change(way="once"):
            yield f"{word} = {bench.names.draw}();"
        case Change(way="rol") if top:
            yield f"{word} = {{{word}[{top - 1}:0], {word}[{top}]}};"
        case _:
            pass


def _literal(port: Port, word: int) -> str:
    number = f"d{word}" if word < 10 else f"h{word:x}"
    return f"{word_bits(port)}'{number}"


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""


def _repeat(times: int) -> str:
    return f"repeat ({times}) " if times > 1 else ""

"""Adds code to the RTL that counts the states and the arcs of its state machines.

The code is before ``endmodule``, on lines of its own. A ``line`` directive gives them the file name
`ADDED`, and another one continues the numbering of the design's own lines. Each state and each arc
is one ``if``, which Verilator counts as a branch. A cover statement would not do, because a
testbench can turn it off with ``$assertoff``. Verilator's own FSM coverage is off, because it finds
fewer machines.

A state counts at each clock edge at which the register holds it. An arc counts if the register held
its source at one clock edge and its target after it, and no set or reset was active. The added
process runs on the register's own events and reads the same signals as its process, so a reset
pulse between two edges makes the reset state the source of the next arc. Nothing is sampled: a
signal that changes together with the clock, or twice in no time, is seen as the register sees it.
The target is read at the register's next event, clock or reset; so the last edge of a simulation
counts no arc.

A reset pulse of zero width can run a process as if the clock had ticked: its event occurs, and the
reset is over when the process reads it. Such a run ends the simulation with the message `CLOCKLESS`
at the next event.

Points are named by their states (``IDLE``, ``IDLE->RUN``). Their place is the declaration of the
state or the assignment of the arc. In a module with several machines the name starts with the
register (``rx.IDLE``).

Initial values and ``initial`` blocks have no points (`hdl.coverage.initial`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from pyslang import SourceLocation, SourceRange
from pyslang.ast import InstanceBodySymbol, InstanceSymbol
from pyslang.syntax import ModuleDeclarationSyntax

from coevolve.environments.hdl.coverage.initial import initial_parts
from coevolve.environments.hdl.coverage.processes import Clock, asynchronous_clocks
from coevolve.environments.hdl.coverage.state_machines import Machine, machines
from coevolve.environments.hdl.designs.rtl import Rtl
from coevolve.environments.hdl.nodes import nodes
from coevolve.environments.hdl.simulate.messages import SourceFile

ADDED = ".coevolve"
"""File name of the added lines; no file of a design can have it."""

COUNTED = "if ({condition}) ;"
"""A line that counts how often a condition holds, as Verilator's branch ``if``."""

CLOCKLESS = (
    "an asynchronous set or reset of the design was active for no time, which ran its registers "
    "without a clock edge; hold it for some time"
)


@dataclass(frozen=True, kw_only=True)
class FsmPoint:
    """The name of a state or an arc, and its place in the RTL."""

    file: str
    line: int
    column: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Instrumented:
    """RTL with its added lines."""

    files: tuple[SourceFile, ...]
    names: Mapping[int, FsmPoint]
    """The point of each added line that counts one, by the line's number in `ADDED`."""


@dataclass(frozen=True, kw_only=True)
class _Module:
    """A module with state machines or asynchronous resets, and the place for added statements."""

    file: str
    offset: int
    """Bytes before its ``endmodule``, whose place follows."""

    line: int
    column: int
    machines: list[Machine]
    asynchronous: list[Clock]
    """Clocks of processes with an asynchronous set or reset."""


class _Added:
    """The added lines of all modules, numbered from 1."""

    def __init__(self) -> None:
        self.names: dict[int, FsmPoint] = {}
        self.count = 0

    def block(self, module: _Module, lines: Iterable[str | tuple[str, FsmPoint]]) -> str:
        """Return ``lines`` as text before the module's end; a line may count a point."""
        texts = [f'\n`line {self.count + 1} "{ADDED}" 0']
        for line in lines:
            self.count += 1
            text = line if isinstance(line, str) else line[0]
            if not isinstance(line, str):
                self.names[self.count] = line[1]
            texts.append(text)
        texts.append(f'`line {module.line} "{module.file}" 0')
        return "\n".join(texts) + "\n" + " " * (module.column - 1)


def instrument(rtl: Rtl) -> Instrumented:
    """Return the files of ``rtl`` with added lines for all state machines under its top."""
    added = _Added()
    inserted = list(initial_parts(rtl))
    for module in _modules(rtl):
        text = added.block(module, _lines(rtl, module))
        inserted.append((module.file, module.offset, text))
    texts = {file.name: file.text.encode() for file in rtl.unit.files}
    for file, offset, text in sorted(inserted, reverse=True):
        texts[file] = texts[file][:offset] + text.encode() + texts[file][offset:]
    files = tuple(
        msgspec.structs.replace(file, text=texts[file.name].decode()) for file in rtl.unit.files
    )
    return Instrumented(files=files, names=added.names)


def _modules(rtl: Rtl) -> list[_Module]:
    found: dict[str, _Module] = {}
    for body in _bodies(rtl.top):
        name = body.definition.name
        syntax = body.definition.syntax
        if name in found or not isinstance(syntax, ModuleDeclarationSyntax):
            continue
        end = syntax.endmodule.location
        known = [each for each in machines(body) if _is_written(rtl, each.clock)]
        clocks = [each for each in asynchronous_clocks(body) if _is_written(rtl, each)]
        if (known or clocks) and not rtl.sources.isMacroLoc(end):
            found[name] = _Module(
                file=rtl.sources.getFileName(end),
                offset=end.offset,
                line=rtl.sources.getLineNumber(end),
                column=rtl.sources.getColumnNumber(end),
                machines=known,
                asynchronous=clocks,
            )
    return list(found.values())


def _bodies(top: InstanceBodySymbol) -> Iterator[InstanceBodySymbol]:
    """Yield the elaborated modules: ``top``, then those below it."""
    yield top
    for each in nodes(top, InstanceSymbol):
        yield each.body


def _is_written(rtl: Rtl, clock: Clock) -> bool:
    """Return whether no macro expands to the name of the clock or of a reset."""
    conditions = [each.condition for each in clock.resets]
    ranges = (*clock.edges, *clock.controls, *conditions)
    return not any(rtl.sources.isMacroLoc(each.start) for each in ranges)


_Line = str | tuple[str, FsmPoint]
"""An added line, and the point that it counts."""


def _lines(rtl: Rtl, module: _Module) -> Iterator[_Line]:
    for number, machine in enumerate(module.machines):
        prefix = f"{machine.name}." if len(module.machines) > 1 else ""
        yield from _watch(rtl, machine, f"_coevolve_fsm_{number}", prefix)
    yield from _guards(rtl, module)


def _watch(rtl: Rtl, machine: Machine, own: str, prefix: str) -> Iterator[_Line]:
    """Yield the processes that count; Verilator counts no toggles for names like ``own``."""
    edges, events, free = _timing(rtl, machine.clock)
    name = machine.name
    yield f"logic [$bits({name})-1:0] {own}_from; logic {own}_ran = 0;"
    yield f"always @({edges}) begin"
    for state, (value, place) in machine.states.items():
        point = _point(rtl, place, f"{prefix}{state}")
        yield COUNTED.format(condition=f"{name} == {value}"), point
    yield "end"
    yield f"always @({events}) begin {own}_from <= {name}; {own}_ran <= {free};"
    yield f"if ({own}_ran) begin"
    for (source, target), place in sorted(machine.arcs.items(), key=lambda arc: arc[1].offset):
        old, new = machine.states[source][0], machine.states[target][0]
        yield f"if ({own}_from == {old})"
        point = _point(rtl, place, f"{prefix}{source}->{target}")
        yield COUNTED.format(condition=f"{name} == {new}"), point
    yield "end end"


def _point(rtl: Rtl, place: SourceLocation, name: str) -> FsmPoint:
    return FsmPoint(
        file=rtl.sources.getFileName(place),
        line=rtl.sources.getLineNumber(place),
        column=rtl.sources.getColumnNumber(place),
        name=name,
    )


def _guards(rtl: Rtl, module: _Module) -> Iterator[str]:
    """Yield code that detects runs without clock and reset, once per set of events."""
    timings = dict.fromkeys(_timing(rtl, each) for each in module.asynchronous)
    for number, (edges, events, free) in enumerate(timings):
        own = f"_coevolve_run_{number}"
        yield (
            f"logic {own}_edge = 0, {own}_before = 0, {own}_free = 0; "
            f"always @({edges}) {own}_edge <= !{own}_edge; "
            f"always @({events}) begin {own}_before <= {own}_edge; {own}_free <= {free}; "
            f'if ({own}_free && {own}_edge == {own}_before) $fatal(1, "{CLOCKLESS}"); end'
        )


def _timing(rtl: Rtl, clock: Clock) -> tuple[str, str, str]:
    """Return expressions: the clock's edges, all events, and that no set or reset is active."""
    edges = [_source(rtl, each) for each in clock.edges]
    controls = [_source(rtl, each) for each in clock.controls]
    free = [f"!({_source(rtl, each.condition)})" for each in clock.resets]
    return " or ".join(edges), " or ".join(edges + controls), " && ".join(free) or "1"


def _source(rtl: Rtl, at: SourceRange) -> str:
    """Return the text at ``at`` on one line, without comments."""
    text = rtl.sources.getSourceText(at.start.buffer).encode()[at.start.offset : at.end.offset]
    lines = [line.partition("//")[0] for line in text.decode().splitlines()]
    return " ".join(" ".join(lines).split())

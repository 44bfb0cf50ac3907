"""Adds a cover statement to the RTL for each state and each arc of its state machines.

The statements are on the line of ``endmodule``, before it, so that line numbers stay the same;
Verilator counts them like a designer's own cover statements. Verilator's own FSM coverage is off,
because it finds fewer machines.

A state counts at each clock edge at which the register holds it. An arc counts if the register held
its source at one clock edge and its target after it, and no set or reset was active. The added
process runs on the register's own events and reads the same signals as its process, so a reset
pulse between two edges makes the reset state the source of the next arc. Nothing is sampled: a
signal that changes together with the clock, or twice in no time, is seen as the register sees it.
The target is read at the register's next event, clock or reset; so the last edge of a simulation
counts no arc.

A reset pulse of zero width can run a process as if the clock had ticked: its event occurs, and the
reset is over when the process reads it. Such a run ends the simulation with the message `CLOCKLESS`
at the next event. A cover statement cannot do that, because a testbench can turn it off with
``$assertoff``.

Points are named by their states (``IDLE``, ``IDLE->RUN``). Their place is the declaration of the
state or the assignment of the arc. In a module with several machines the name starts with the
register (``rx.IDLE``).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from pyslang import SourceLocation, SourceRange
from pyslang.ast import InstanceBodySymbol, InstanceSymbol
from pyslang.syntax import ModuleDeclarationSyntax

from coevolve.environments.hdl.coverage.processes import Clock, asynchronous_clocks
from coevolve.environments.hdl.coverage.state_machines import Machine, machines
from coevolve.environments.hdl.designs.rtl import Rtl
from coevolve.environments.hdl.simulate.messages import SourceFile

LABEL = "coevolve_fsm_"
CLOCKLESS = (
    "an asynchronous set or reset of the design was active for no time, which ran its registers "
    "without a clock edge; hold it for some time"
)

_Condition = tuple[str, SourceLocation, str]
"""Name and place of a point, and the condition under which it counts."""


@dataclass(frozen=True, kw_only=True)
class FsmPoint:
    """The name of a state or an arc, and its place in the RTL."""

    file: str
    line: int
    column: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Instrumented:
    """RTL with its cover statements added."""

    files: tuple[SourceFile, ...]
    names: Mapping[tuple[str, str], FsmPoint]
    """The point of each cover statement, by file and label."""

    places: Mapping[tuple[str, int], range]
    """Added columns, by file and line."""

    def added(self, file: str, line: int, column: int) -> bool:
        """Return whether the place is in added code."""
        return column in self.places.get((file, line), ())


@dataclass(frozen=True, kw_only=True)
class _Module:
    """A module with state machines or asynchronous resets, and the place for added statements."""

    file: str
    end: SourceLocation
    machines: list[Machine]
    asynchronous: list[Clock]
    """Clocks of processes with an asynchronous set or reset."""


def instrument(rtl: Rtl) -> Instrumented:
    """Return the files of ``rtl`` with cover statements for all state machines under its top."""
    texts = {file.name: file.text.encode() for file in rtl.unit.files}
    names: dict[tuple[str, str], FsmPoint] = {}
    places: dict[tuple[str, int], range] = {}
    for module in sorted(_modules(rtl), key=lambda m: (m.file, m.end.offset), reverse=True):
        watches = (*_watches(rtl, module, names), *_guards(rtl, module))
        added = " ".join(watches) + " "
        start = rtl.sources.getColumnNumber(module.end)
        line = rtl.sources.getLineNumber(module.end)
        places[module.file, line] = range(start, start + len(added))
        text = texts[module.file]
        at = module.end.offset
        texts[module.file] = text[:at] + added.encode() + text[at:]
    files = tuple(
        msgspec.structs.replace(file, text=texts[file.name].decode()) for file in rtl.unit.files
    )
    return Instrumented(files=files, names=names, places=places)


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
            file = rtl.sources.getFileName(end)
            found[name] = _Module(file=file, end=end, machines=known, asynchronous=clocks)
    return list(found.values())


def _bodies(top: InstanceBodySymbol) -> Iterator[InstanceBodySymbol]:
    """Yield the elaborated modules: ``top``, then those below it."""
    yield top
    below: list[InstanceBodySymbol] = []

    def visit(node: object) -> None:
        if isinstance(node, InstanceSymbol):
            below.append(node.body)

    top.visit(visit)
    yield from below


def _is_written(rtl: Rtl, clock: Clock) -> bool:
    """Return whether no macro expands to the name of the clock or of a reset."""
    conditions = [each.condition for each in clock.resets]
    ranges = (*clock.edges, *clock.controls, *conditions)
    return not any(rtl.sources.isMacroLoc(each.start) for each in ranges)


def _watches(rtl: Rtl, module: _Module, names: dict[tuple[str, str], FsmPoint]) -> Iterator[str]:
    """Yield the added code for each machine of the module."""
    for machine in module.machines:
        own = f"_{LABEL}{len(names)}"
        prefix = f"{machine.name}." if len(module.machines) > 1 else ""
        states, arcs = (
            " ".join(_covers(rtl, module, prefix, points, names))
            for points in (_states(machine), _arcs(machine, f"{own}_from"))
        )
        yield _watch(rtl, machine, own, states, arcs)


def _watch(rtl: Rtl, machine: Machine, own: str, states: str, arcs: str) -> str:
    """Return the processes that count; Verilator counts no toggles for names like ``own``."""
    edges, events, free = _timing(rtl, machine.clock)
    return (
        f"logic [$bits({machine.name})-1:0] {own}_from; logic {own}_ran = 0; "
        f"always @({edges}) begin {states} end "
        f"always @({events}) begin {own}_from <= {machine.name}; {own}_ran <= {free}; "
        f"if ({own}_ran) begin {arcs} end end"
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


def _covers(
    rtl: Rtl,
    module: _Module,
    prefix: str,
    points: Iterable[_Condition],
    names: dict[tuple[str, str], FsmPoint],
) -> Iterator[str]:
    for name, place, condition in points:
        # Labels are unique among all modules, because a file may hold several.
        label = f"{LABEL}{len(names)}"
        names[module.file, label] = FsmPoint(
            file=rtl.sources.getFileName(place),
            line=rtl.sources.getLineNumber(place),
            column=rtl.sources.getColumnNumber(place),
            name=f"{prefix}{name}",
        )
        yield f"{label}: cover ({condition});"


def _states(machine: Machine) -> Iterator[_Condition]:
    for name, (value, place) in machine.states.items():
        yield name, place, f"{machine.name} == {value}"


def _arcs(machine: Machine, previous: str) -> Iterator[_Condition]:
    for (source, target), place in sorted(machine.arcs.items(), key=lambda arc: arc[1].offset):
        old, new = machine.states[source][0], machine.states[target][0]
        yield f"{source}->{target}", place, f"{previous} == {old} && {machine.name} == {new}"


def _source(rtl: Rtl, at: SourceRange) -> str:
    """Return the text at ``at`` on one line, without comments."""
    text = rtl.sources.getSourceText(at.start.buffer).encode()[at.start.offset : at.end.offset]
    lines = [line.partition("//")[0] for line in text.decode().splitlines()]
    return " ".join(" ".join(lines).split())

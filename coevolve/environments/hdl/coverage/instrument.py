"""Puts a cover property into the RTL for each state of its state machines, and for each arc.

They stand on the line of ``endmodule``, before it, so that no line moves; Verilator counts them as
it counts those that a designer writes. A state counts at each clock at which the register holds it,
an arc where the register held its source at the clock before; not across a reset. Verilator's own
FSM coverage is left off: it finds fewer machines.

Points are named by the states (``IDLE``, ``IDLE->RUN``) and stand where the state is declared or
where the arc is taken; where a module has several machines, by the register too (``rx.IDLE``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from pyslang import SourceLocation, SourceRange
from pyslang.ast import InstanceBodySymbol, InstanceSymbol
from pyslang.syntax import ModuleDeclarationSyntax

from coevolve.environments.hdl.coverage.state_machines import Machine, machines
from coevolve.environments.hdl.designs.rtl import Rtl
from protocols.hardware import SourceFile

LABEL = "coevolve_fsm_"


@dataclass(frozen=True, kw_only=True)
class FsmPoint:
    """Where a state or an arc stands in the RTL, and what it is called."""

    file: str
    line: int
    column: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Instrumented:
    """RTL with its cover properties."""

    files: tuple[SourceFile, ...]
    names: Mapping[tuple[str, str], FsmPoint]
    """What stands behind a property, by its file and label."""

    places: Mapping[tuple[str, int], range]
    """Columns of a line that were put in."""

    def added(self, file: str, line: int, column: int) -> bool:
        """Return whether the place is none of the RTL's own."""
        return column in self.places.get((file, line), ())


@dataclass(frozen=True, kw_only=True)
class _Module:
    """A module with machines, and where its properties go."""

    file: str
    end: SourceLocation
    machines: list[Machine]


def instrument(rtl: Rtl) -> Instrumented:
    """Return the files of ``rtl`` with cover properties for all state machines under its top."""
    texts = {file.name: file.text.encode() for file in rtl.unit.files}
    names: dict[tuple[str, str], FsmPoint] = {}
    places: dict[tuple[str, int], range] = {}
    for module in sorted(_modules(rtl), key=lambda m: (m.file, m.end.offset), reverse=True):
        added = " ".join(_properties(rtl, module, names)) + " "
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
        known = [each for each in machines(body) if _is_written(rtl, each)]
        if known and not rtl.sources.isMacroLoc(end):
            file = rtl.sources.getFileName(end)
            found[name] = _Module(file=file, end=end, machines=known)
    return list(found.values())


def _bodies(top: InstanceBodySymbol) -> Iterator[InstanceBodySymbol]:
    """Yield the elaborated modules under ``top``, itself first."""
    yield top
    below: list[InstanceBodySymbol] = []

    def visit(node: object) -> None:
        if isinstance(node, InstanceSymbol):
            below.append(node.body)

    top.visit(visit)
    yield from below


def _is_written(rtl: Rtl, machine: Machine) -> bool:
    """Return whether no macro stands where the clock or the reset is named."""
    ranges = (machine.clock.signal, machine.clock.reset)
    return not any(rtl.sources.isMacroLoc(each.start) for each in ranges if each is not None)


def _properties(rtl: Rtl, module: _Module, names: dict[tuple[str, str], FsmPoint]) -> Iterator[str]:
    for machine in module.machines:
        prefix = f"{machine.name}." if len(module.machines) > 1 else ""
        for name, place, condition in _conditions(rtl, machine):
            # Unlike those of any other module: a file may hold several.
            label = f"{LABEL}{len(names)}"
            names[module.file, label] = FsmPoint(
                file=rtl.sources.getFileName(place),
                line=rtl.sources.getLineNumber(place),
                column=rtl.sources.getColumnNumber(place),
                name=f"{prefix}{name}",
            )
            edge = f"{machine.clock.edge} {_source(rtl, machine.clock.signal)}"
            yield f"{label}: cover property (@({edge}) {condition});"


def _conditions(rtl: Rtl, machine: Machine) -> Iterator[tuple[str, SourceLocation, str]]:
    """Yield name, place and condition of each point."""
    clock, register = machine.clock, machine.name
    guard = ""
    if clock.reset is not None:
        reset = _source(rtl, clock.reset)
        guard = f" && !({reset})" if clock.asynchronous else f" && !$past({reset})"
    for name, (value, place) in machine.states.items():
        yield name, place, f"{register} == {value}"
    for (source, target), place in sorted(machine.arcs.items(), key=lambda arc: arc[1].offset):
        old, new = machine.states[source][0], machine.states[target][0]
        arc = f"$past({register}) == {old} && {register} == {new}"
        yield f"{source}->{target}", place, arc + guard


def _source(rtl: Rtl, at: SourceRange) -> str:
    """Return the text at ``at`` on one line, without comments."""
    text = rtl.sources.getSourceText(at.start.buffer).encode()[at.start.offset : at.end.offset]
    lines = [line.partition("//")[0] for line in text.decode().splitlines()]
    return " ".join(" ".join(lines).split())

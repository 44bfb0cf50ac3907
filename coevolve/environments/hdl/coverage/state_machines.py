"""Finds the state machines of a module, in its elaborated form.

A state machine is a register of the module whose next value is a constant that depends on its
present value: an enum, or bits that are compared with parameters. The present value is known inside
``case (state)`` and ``if (state == A)``. The next value is assigned to the register itself, or to
the variable that the register takes over at the clock (two processes). Self-loops do not count as
arcs, nor does reset, which leads from every state to one.

Not found: machines inside generate blocks, states written as plain numbers, one-hot bits tested one
by one, and computed next states.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from pyslang import ConstantValue, SourceLocation
from pyslang.ast import (
    ConditionalExpression,
    EnumType,
    EnumValueSymbol,
    Expression,
    InstanceBodySymbol,
    NamedValueExpression,
    ProceduralBlockSymbol,
    Symbol,
    VariableSymbol,
)

from coevolve.environments.hdl.coverage.processes import (
    Clock,
    Present,
    Process,
    Reset,
    State,
    constant,
    process_of,
    strip,
)

_Assigned = tuple[Expression, Present | None]
"""A next value, and the present states for which it is assigned."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One state register."""

    name: str
    clock: Clock
    states: Mapping[str, tuple[ConstantValue, SourceLocation]]
    arcs: Mapping[tuple[str, str], SourceLocation]
    """For each arc, the place of the first assignment that takes it."""


def machines(module: InstanceBodySymbol) -> list[Machine]:
    """Return the module's state machines, in the order of their declaration."""
    processes = [process_of(each) for each in module if isinstance(each, ProceduralBlockSymbol)]
    registers = [each for each in module if isinstance(each, VariableSymbol)]
    found = (_machine(register, processes) for register in registers)
    return [machine for machine in found if machine is not None]


def _machine(register: VariableSymbol, processes: Sequence[Process]) -> Machine | None:
    path = register.hierarchicalPath
    clocked = [(process, value) for process in processes for value in process.clocked(path)]
    if not clocked or not register.type.isIntegral:
        return None
    taken_over = {each for _, value in clocked for each in _variables(_leaves(value))}
    targets = {path, *(each for each in taken_over if not any(p.clocked(each) for p in processes))}
    assigned: list[_Assigned] = [
        (value, context.get(path))
        for process in processes
        for target, value, context in process.assigned
        if target in targets
    ]
    states = _states(register, assigned, targets, processes)
    arcs = _arcs(assigned, states)
    clock = clocked[0][0].clock
    if not arcs or clock is None:
        return None
    if not clock.controls:
        values = clocked[0][0].clocked(path)
        clock = replace(clock, resets=tuple(each for each in clock.resets if _sets(each, values)))
    known = {name: (state.value, state.location) for name, state in states.items()}
    return Machine(name=register.name, clock=clock, states=known, arcs=arcs)


def _sets(reset: Reset, values: Sequence[Expression]) -> bool:
    """Return whether the reset's statement sets the register to a constant."""
    start, end = reset.statement.start.offset, reset.statement.end.offset
    inside = [each for each in values if start <= each.sourceRange.start.offset < end]
    return bool(inside) and all(constant(each) is not None for each in inside)


def _states(
    register: VariableSymbol,
    assigned: Sequence[_Assigned],
    targets: set[str],
    processes: Sequence[Process],
) -> Mapping[str, State]:
    """Return the states by name; empty if a next value is neither a constant nor taken over."""
    kind = register.type.canonicalType
    if isinstance(kind, EnumType):
        members = cast("Iterable[Symbol]", kind)
        return {each.name: each for each in members if isinstance(each, EnumValueSymbol)}
    leaves = [leaf for value, _ in assigned for leaf in _leaves(value)]
    if any(constant(leaf) is None and not _variables([leaf]) <= targets for leaf in leaves):
        return {}
    if any(constant(leaf) is None and not _variables([leaf]) for leaf in leaves):
        return {}
    found = [state for leaf in leaves if (state := constant(leaf)) is not None]
    for process in processes:
        found += process.tested.get(register.hierarchicalPath, {}).values()
    return {state.name: state for state in sorted(found, key=lambda state: state.location.offset)}


def _arcs(
    assigned: Sequence[_Assigned], states: Mapping[str, State]
) -> dict[tuple[str, str], SourceLocation]:
    arcs: dict[tuple[str, str], SourceLocation] = {}
    for value, present in assigned:
        for source in present.among(states) if present is not None else ():
            for leaf in _leaves(value):
                target = constant(leaf)
                if target is not None and target.name != source and target.name in states:
                    arcs.setdefault((source, target.name), leaf.sourceRange.start)
    return arcs


def _leaves(value: Expression) -> list[Expression]:
    """Return the possible values of ``value``: the arms of ``?:``, or the value itself."""
    inner = strip(value)
    if isinstance(inner, ConditionalExpression):
        return [*_leaves(inner.left), *_leaves(inner.right)]
    return [inner]


def _variables(expressions: Iterable[Expression]) -> set[str]:
    """Return the paths of those expressions that are whole variables."""
    inner = [strip(each) for each in expressions]
    named = [each.symbol for each in inner if isinstance(each, NamedValueExpression)]
    return {each.hierarchicalPath for each in named if isinstance(each, VariableSymbol)}

"""Proves that references of a testbench into the design only read it.

A reference is proven if it is written out in the text of a process, a function or a continuous
assignment, and nowhere is a target: of an assignment, an increment, an event trigger, an argument
that a task may write, or a port that is no input. Arguments of system tasks count as read for the
tasks in `READERS` alone. What the elaborated testbench does not contain is not proven.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from pyslang import SourceManager
from pyslang.ast import (
    ArgumentDirection,
    AssignmentExpression,
    CallExpression,
    Compilation,
    ContinuousAssignSymbol,
    EventTriggerStatement,
    Expression,
    FormalArgumentSymbol,
    HierarchicalValueExpression,
    InstanceSymbol,
    NetSymbol,
    PortConnection,
    PrimitiveInstanceSymbol,
    ProceduralBlockSymbol,
    SubroutineSymbol,
    UnaryExpression,
    UnaryOperator,
    VisitAction,
)

from coevolve.environments.hdl.nodes import nodes

READERS = frozenset(
    f"${name}{base}"
    for name in ("display", "write", "strobe", "monitor")
    for base in ("", "b", "h", "o")
) | {
    *("$info", "$warning", "$error", "$fatal", "$signed", "$unsigned", "$bits", "$clog2"),
    *("$countones", "$onehot", "$onehot0", "$isunknown", "$past", "$rose", "$fell", "$stable"),
    *("$changed", "$sampled", "$sformatf", "$itor", "$bitstoreal"),
}
"""System tasks and functions that change none of their arguments."""

_STEPS = frozenset(
    {
        *(UnaryOperator.Preincrement, UnaryOperator.Predecrement),
        *(UnaryOperator.Postincrement, UnaryOperator.Postdecrement),
    }
)

Span = tuple[int, int]
"""Bytes before a reference and before what follows it."""


def proven_reads(compilation: Compilation, sources: SourceManager, file: str) -> list[Span]:
    """Return the places in ``file`` of references that only read, in order."""
    read: set[Span] = set()
    written: set[Span] = set()

    def spans(node: object) -> set[Span]:
        return set(_spans(node, sources, file))

    def visit(node: object) -> VisitAction:
        if isinstance(node, ProceduralBlockSymbol | SubroutineSymbol):
            read.update(spans(node.body))
        elif isinstance(node, ContinuousAssignSymbol):
            read.update(spans(node.assignment))
        elif isinstance(node, NetSymbol) and node.initializer:
            read.update(spans(node.initializer))
        elif isinstance(node, InstanceSymbol):
            for each in _connected(node, inputs=True):
                read.update(spans(each))
        for target in _targets(node):
            written.update(spans(target))
        return VisitAction.Advance

    compilation.getRoot().visit(visit)
    return sorted(read - written)


def _spans(node: object, sources: SourceManager, file: str) -> Iterator[Span]:
    for each in nodes(cast("Expression", node), HierarchicalValueExpression):
        start, end = each.sourceRange.start, each.sourceRange.end
        written_out = not sources.isMacroLoc(start) and not sources.isMacroLoc(end)
        if written_out and sources.getFileName(start) == file:
            yield start.offset, end.offset


def _targets(node: object) -> Iterable[object]:
    """Return the expressions below a node that it may change."""
    match node:
        case AssignmentExpression():
            return (node.left,)
        case UnaryExpression() if node.op in _STEPS:
            return (node.operand,)
        case EventTriggerStatement():
            return (node.target,)
        case CallExpression():
            return () if _only_reads(node) else cast("Sequence[object]", node.arguments)
        case InstanceSymbol():
            return _connected(node, inputs=False)
        case PrimitiveInstanceSymbol():
            return cast("Sequence[object]", node.portConnections)
        case _:
            return ()


def _connected(instance: InstanceSymbol, *, inputs: bool) -> Iterator[Expression]:
    """Yield what is connected to the inputs of an instance, or to its other ports."""
    for each in cast("Iterable[PortConnection]", instance.portConnections):
        is_input = getattr(each.port, "direction", None) == ArgumentDirection.In
        expression = cast("Expression | None", each.expression)
        if expression is not None and is_input == inputs:
            yield expression


def _only_reads(call: CallExpression) -> bool:
    if call.isSystemCall:
        return call.subroutineName in READERS
    subroutine = cast("SubroutineSymbol", call.subroutine)
    formals = cast("Iterable[FormalArgumentSymbol]", subroutine.arguments)
    return all(each.direction == ArgumentDirection.In for each in formals)

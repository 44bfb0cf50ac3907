"""Finds what the processes of an elaborated module assign, at which clock, and in which states.

The present value of a variable is known inside ``case (variable)`` and ``if (variable == A)`` if
the other side is a member of an enum or a parameter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import cast

from pyslang import SourceRange
from pyslang.ast import (
    AssignmentExpression,
    BinaryExpression,
    BinaryOperator,
    BlockStatement,
    CaseStatement,
    ConditionalStatement,
    ConversionExpression,
    EdgeKind,
    EnumValueSymbol,
    EventListControl,
    Expression,
    ExpressionStatement,
    ForLoopStatement,
    InstanceBodySymbol,
    NamedValueExpression,
    ParameterSymbol,
    ProceduralBlockSymbol,
    SignalEventControl,
    Statement,
    StatementList,
    TimedStatement,
    TimingControl,
)

from coevolve.environments.hdl.nodes import nodes

State = EnumValueSymbol | ParameterSymbol

EDGES = (EdgeKind.PosEdge, EdgeKind.NegEdge)


@dataclass(frozen=True, kw_only=True)
class Reset:
    """A condition under which a process does not take the next value, and its statement."""

    condition: SourceRange
    statement: SourceRange


@dataclass(frozen=True, kw_only=True)
class Clock:
    """When a register takes its next value."""

    edges: tuple[SourceRange, ...]
    """Events of the clock, e.g. ``posedge clk``."""

    controls: tuple[SourceRange, ...]
    """Events that set or reset the register without the clock, e.g. ``negedge rst_n``."""

    resets: tuple[Reset, ...]
    """Conditions in the order in which the process tests them."""


@dataclass(frozen=True)
class Present:
    """The possible present states of a register: ``names``, or with ``other`` all but these."""

    names: frozenset[str]
    other: bool = False

    def __and__(self, more: "Present") -> "Present":
        if self.other and more.other:
            return Present(self.names | more.names, other=True)
        if self.other:
            return Present(more.names - self.names)
        return Present(self.names - more.names if more.other else self.names & more.names)

    def __invert__(self) -> "Present":
        return Present(self.names, other=not self.other)

    def among(self, states: Iterable[str]) -> list[str]:
        """Return the possible states out of ``states``."""
        return [state for state in states if (state in self.names) != self.other]


Context = Mapping[str, Present]
"""Possible present states by the register's path."""


@dataclass(kw_only=True)
class Process:
    """The assignments of one process."""

    clock: Clock | None
    assigned: list[tuple[str, Expression, Context]] = field(
        default_factory=list[tuple[str, Expression, Context]]
    )
    tested: dict[str, dict[str, State]] = field(default_factory=dict[str, dict[str, State]])
    """Constants with which variables are compared, by path and name."""

    def clocked(self, path: str) -> list[Expression]:
        """Return the values that the variable takes at the clock."""
        if self.clock is None:
            return []
        return [value for target, value, _ in self.assigned if target == path]


def process_of(block: ProceduralBlockSymbol) -> Process:
    """Return the assignments of ``block``."""
    body = block.body
    clock = None
    if isinstance(body, TimedStatement):
        clock = _clock(body.timing, body.stmt)
        body = body.stmt
    process = Process(clock=clock)
    _walk(body, {}, process)
    return process


def asynchronous_clocks(module: InstanceBodySymbol) -> list[Clock]:
    """Return the clocks of the processes with an asynchronous set or reset."""
    processes = [process_of(each) for each in module if isinstance(each, ProceduralBlockSymbol)]
    return [each.clock for each in processes if each.clock is not None and each.clock.controls]


def _clock(timing: TimingControl, body: Statement) -> Clock | None:
    """Return the clock of a process: its edges without those of asynchronous conditions."""
    several = isinstance(timing, EventListControl)
    events = cast("Sequence[TimingControl]", timing.events) if several else [timing]
    edges = [each for each in events if isinstance(each, SignalEventControl)]
    edges = [each for each in edges if each.edge in EDGES]
    if not edges:
        return None
    chain = _leading_ifs(body)
    asynchronous = list(takewhile(lambda each: _controls(each, edges), chain))
    controls = [edge for edge in edges if any(_controls(each, [edge]) for each in asynchronous)]
    if len(controls) == len(edges):
        asynchronous, controls = [], []
    return Clock(
        edges=tuple(each.sourceRange for each in edges if each not in controls),
        controls=tuple(each.sourceRange for each in controls),
        resets=tuple(_reset(each) for each in asynchronous or chain[:1]),
    )


def _controls(statement: ConditionalStatement, edges: Iterable[SignalEventControl]) -> bool:
    """Return whether the first condition reads the signal of one of ``edges``."""
    named = _value_paths(_conditions(statement)[0])
    return any(_value_paths(edge.expr) & named for edge in edges)


def _reset(statement: ConditionalStatement) -> Reset:
    return Reset(
        condition=_conditions(statement)[0].sourceRange, statement=statement.ifTrue.sourceRange
    )


def _leading_ifs(body: Statement) -> list[ConditionalStatement]:
    """Return the ``if`` at the start of the process, and its chain of ``else if``."""
    while isinstance(body, BlockStatement):
        body = body.body
    first = cast("Sequence[Statement]", body.list)[0] if isinstance(body, StatementList) else body
    chain: list[ConditionalStatement] = []
    following: Statement | None = first
    while isinstance(following, ConditionalStatement):
        chain.append(following)
        following = following.ifFalse
    return chain


def _conditions(statement: ConditionalStatement) -> list[Expression]:
    return [
        each.expr for each in cast("Sequence[ConditionalStatement.Condition]", statement.conditions)
    ]


def _walk(statement: Statement | None, context: Context, process: Process) -> None:
    """Collect the assignments in ``statement``, which runs where ``context`` holds."""
    match statement:
        case StatementList():
            for each in cast("Sequence[Statement]", statement.list):
                _walk(each, context, process)
        case BlockStatement() | ForLoopStatement():
            _walk(statement.body, context, process)
        case TimedStatement():
            _walk(statement.stmt, context, process)
        case ConditionalStatement():
            _walk_if(statement, context, process)
        case CaseStatement():
            _walk_case(statement, context, process)
        case ExpressionStatement(expr=AssignmentExpression() as assignment):
            target = strip(assignment.left)
            if isinstance(target, NamedValueExpression):
                path = target.symbol.hierarchicalPath
                process.assigned.append((path, assignment.right, context))
        case _:
            pass


def _walk_if(statement: ConditionalStatement, context: Context, process: Process) -> None:
    conditions = _conditions(statement)
    known = [each for condition in conditions for each in _required_states(condition, process)]
    inside = dict(context)
    for path, present in known:
        inside[path] = inside[path] & present if path in inside else present
    _walk(statement.ifTrue, inside, process)
    whole = len(known) == 1 and isinstance(strip(conditions[0]), BinaryExpression)
    outside = dict(context)
    if whole and not _is_and(conditions[0]):
        path, present = known[0]
        outside[path] = outside[path] & ~present if path in outside else ~present
    _walk(statement.ifFalse, outside, process)


def _required_states(condition: Expression, process: Process) -> list[tuple[str, Present]]:
    """Return the states that ``condition`` requires, for each register that it compares."""
    inner = strip(condition)
    if not isinstance(inner, BinaryExpression):
        return []
    if _is_and(inner):
        return [*_required_states(inner.left, process), *_required_states(inner.right, process)]
    if inner.op not in (BinaryOperator.Equality, BinaryOperator.Inequality):
        return []
    variable, state = strip(inner.left), constant(inner.right)
    if not isinstance(variable, NamedValueExpression) or state is None:
        return []
    path = variable.symbol.hierarchicalPath
    process.tested.setdefault(path, {})[state.name] = state
    other = inner.op is BinaryOperator.Inequality
    return [(path, Present(frozenset([state.name]), other=other))]


def _walk_case(statement: CaseStatement, context: Context, process: Process) -> None:
    selector = strip(statement.expr)
    path = selector.symbol.hierarchicalPath if isinstance(selector, NamedValueExpression) else ""
    labelled: set[str] = set()
    whole = True
    for item in cast("Sequence[CaseStatement.ItemGroup]", statement.items):
        labels = [constant(each) for each in cast("Sequence[Expression]", item.expressions)]
        states = {label.name: label for label in labels if label is not None}
        if path and len(states) == len(labels):
            process.tested.setdefault(path, {}).update(states)
            present = Present(frozenset(states))
            _walk(item.stmt, _within(context, path, present), process)
        else:
            whole = False
            _walk(item.stmt, context, process)
        labelled |= states.keys()
    rest = Present(frozenset(labelled), other=True)
    known = _within(context, path, rest) if path and whole else context
    _walk(statement.defaultCase, known, process)


def _within(context: Context, path: str, present: Present) -> Context:
    return {**context, path: context[path] & present if path in context else present}


def _is_and(condition: Expression) -> bool:
    inner = strip(condition)
    return isinstance(inner, BinaryExpression) and inner.op is BinaryOperator.LogicalAnd


def strip(expression: Expression) -> Expression:
    """Return the expression without conversions of type."""
    while isinstance(expression, ConversionExpression):
        expression = expression.operand
    return expression


def constant(expression: Expression) -> State | None:
    """Return the enum's member or the parameter that ``expression`` names, if any."""
    inner = strip(expression)
    if isinstance(inner, NamedValueExpression):
        symbol = inner.symbol
        if isinstance(symbol, EnumValueSymbol | ParameterSymbol):
            return symbol
    return None


def _value_paths(expression: Expression) -> set[str]:
    """Return the paths of all values in ``expression``."""
    return {each.symbol.hierarchicalPath for each in nodes(expression, NamedValueExpression)}

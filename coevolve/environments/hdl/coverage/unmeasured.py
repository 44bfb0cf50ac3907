"""Finds conditions that have no points, because too many combinations of their terms decide them.

Verilator counts, for each condition, the combinations of terms that make it true or false: n + 1
for a conjunction of n terms, but 2^n for a parity. Beyond `MOST_COMBINATIONS` it counts none. A
report names these conditions, so that nobody takes them for covered.
"""

from collections.abc import Iterator

from pyslang.ast import (
    BinaryExpression,
    BinaryOperator,
    ConditionalExpression,
    Expression,
    UnaryExpression,
    UnaryOperator,
    VisitAction,
)

from coevolve.environments.hdl.coverage.processes import strip
from coevolve.environments.hdl.designs.rtl import Rtl, located

MOST_COMBINATIONS = 16
"""Maximum points of one condition, so that none outweighs a design."""

MOST_CHARACTERS = 60

_Ways = tuple[int, int]
"""Numbers of combinations that make an expression true, and false."""

_AND = (BinaryOperator.LogicalAnd, BinaryOperator.BinaryAnd)
_OR = (BinaryOperator.LogicalOr, BinaryOperator.BinaryOr)
_XOR = (BinaryOperator.BinaryXor, BinaryOperator.BinaryXnor)
_NOT = (UnaryOperator.LogicalNot, UnaryOperator.BitwiseNot)
_ALL = (UnaryOperator.BitwiseAnd, UnaryOperator.BitwiseNand)
_ANY = (UnaryOperator.BitwiseOr, UnaryOperator.BitwiseNor)
_ODD = (UnaryOperator.BitwiseXor, UnaryOperator.BitwiseXnor)


def unmeasured(rtl: Rtl) -> tuple[str, ...]:
    """Return the conditions without points, each as ``file:line:column: text``."""
    found = {
        f"{located(rtl.sources, each.sourceRange.start)[1]}: {_text(each)}": None
        for each in _conditions(rtl)
        if sum(_ways(each)) > MOST_COMBINATIONS
    }
    return tuple(found)


def _conditions(rtl: Rtl) -> Iterator[Expression]:
    """Yield the largest expressions of one bit that combine several."""
    found: list[Expression] = []

    def visit(node: object) -> VisitAction:
        if isinstance(node, Expression) and _combines(node):
            found.append(node)
            return VisitAction.Skip
        return VisitAction.Advance

    rtl.top.visit(visit)
    yield from found


def _combines(node: Expression) -> bool:
    if not isinstance(node, BinaryExpression | UnaryExpression | ConditionalExpression):
        return False
    return node.type.isIntegral and node.type.bitWidth == 1 and _ways(node) != (1, 1)


def _ways(expression: Expression) -> _Ways:
    inner = strip(expression)
    if not inner.type.isIntegral or inner.type.bitWidth != 1:
        return 1, 1
    match inner:
        case BinaryExpression():
            return _of_binary(inner)
        case UnaryExpression():
            return _of_unary(inner)
        case ConditionalExpression():
            return 2, 2
        case _:
            return 1, 1


def _of_binary(inner: BinaryExpression) -> _Ways:
    (true, false), (other_true, other_false) = _ways(inner.left), _ways(inner.right)
    if inner.op in _AND:
        return true * other_true, false + other_false
    if inner.op in _OR:
        return true + other_true, false * other_false
    if inner.op in _XOR:
        same = true * other_true + false * other_false
        differ = true * other_false + false * other_true
        return (differ, same) if inner.op is BinaryOperator.BinaryXor else (same, differ)
    return 1, 1


def _of_unary(inner: UnaryExpression) -> _Ways:
    bits = inner.operand.type.bitWidth if inner.operand.type.isIntegral else 1
    if inner.op in _NOT and bits == 1:
        true, false = _ways(inner.operand)
        return false, true
    if inner.op in _ALL or inner.op in _ANY:
        return (1, bits) if inner.op in _ALL else (bits, 1)
    half = 2 ** (bits - 1)
    return (half, half) if inner.op in _ODD else (1, 1)


def _text(condition: Expression) -> str:
    text = " ".join(str(condition.syntax).split())
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 3] + "..."

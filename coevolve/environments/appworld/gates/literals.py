"""Literals of a reference that the policy has to know, and where it could know them from.

A reference is code, so it finds out by calls what only the apps show. A literal is therefore said
by the instruction, or documented: an order, a status, a mail folder. One that is neither, such as
the id of a song, was seen in an exploration and copied, and no attempt could know it.

Left out are literals that carry no knowledge: keys of a record that an API answers, texts without a
letter or digit, formats of dates, 0 and 1, and numbers that only compute, such as the 60 minutes of
an hour.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coevolve.environments.tools.gates.forms import is_composed, numbers, says, words

TRIVIAL = (0, 1, -1)
COMPUTING = (ast.BinOp, ast.AugAssign, ast.Subscript, ast.Slice, ast.UnaryOp)
PAGING = ("page_index", "page_limit")
FORMATTING = frozenset({"strftime", "strptime", "format", "from_format", "split", "join", "get"})
"""Methods whose own literals are formats, separators or keys."""

COMPLETE = "complete_task"
ANSWER, STATUS = "answer", "status"
DONE = "success"

Value = str | int | float


class Literal(NamedTuple):
    """A literal that somebody has to say."""

    value: Value
    formatted: bool
    """Whether it is part of a formatted text."""


def told_literals(blocks: Sequence[str]) -> tuple[Literal, ...]:
    """Return the literals of a reference that carry knowledge, each once."""
    found = (each for block in blocks for each in _below(ast.parse(block), None))
    return tuple(dict.fromkeys(found))


def all_values(blocks: Sequence[str]) -> tuple[Value, ...]:
    """Return every text and number of a reference."""
    return tuple(
        node.value
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str | int | float)
        and not isinstance(node.value, bool)
    )


def is_known(value: Value, said: str, documented: str) -> bool:
    """Return whether an instruction says a value, or the documents of the APIs have it."""
    if says(said, value):
        return True
    if not isinstance(value, str):
        return False
    return is_composed(value, said) or f" {words(value).strip()} " in words(documented)


def is_said_number(number: float, values: Sequence[Value]) -> bool:
    """Return whether a reference has a number, perhaps counted from 0, or within a text."""
    written = f"{number:g}"
    return any(
        value in (number, number - 1)
        if not isinstance(value, str)
        else written in value or number in numbers(value)
        for value in values
    )


def answers(blocks: Sequence[str]) -> tuple[ast.expr, ...]:
    """Return the expressions that a reference gives as its answer."""
    return tuple(
        keyword.value
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and _method(node) == COMPLETE
        for keyword in node.keywords
        if keyword.arg == ANSWER
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
    )


def gives_up(blocks: Sequence[str]) -> bool:
    """Return whether a reference completes its task with another status than success."""
    return any(
        keyword.arg == STATUS and ast.unparse(keyword.value) not in (repr(DONE), repr(None))
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and _method(node) == COMPLETE
        for keyword in node.keywords
    )


def is_given(answer: ast.expr) -> bool:
    """Return whether an answer is written out in the code, and not found out by it."""
    return not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(answer))


def printing(blocks: Sequence[str]) -> tuple[str, ...]:
    """Return the blocks with their answer printed in a line of its own, in place of completing."""
    return tuple(ast.unparse(_Printing().visit(ast.parse(block))) for block in blocks)


class _Printing(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.expr:
        if _method(node) != COMPLETE:
            return node
        given = [each.value for each in node.keywords if each.arg == ANSWER]
        return ast.Call(ast.Name("print"), [ast.Constant(""), *given], [])


def _below(node: ast.AST, parent: ast.AST | None) -> Iterator[Literal]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str | int | float) and _carries(node.value, parent):
            yield Literal(node.value, isinstance(parent, ast.JoinedStr))
        return
    for child in ast.iter_child_nodes(node):
        if not _is_form(child, node):
            yield from _below(child, node)


def _is_form(child: ast.AST, node: ast.AST) -> bool:
    """Return whether a part of an expression is a key, a format, or says how to page."""
    match node:
        case ast.Subscript():
            return child is node.slice
        case ast.FormattedValue():
            return child is node.format_spec
        case ast.Call():
            return child in node.args and _method(node) in FORMATTING
        case ast.keyword():
            return node.arg in PAGING
        case ast.Expr():
            return isinstance(child, ast.Constant)
        case _:
            return False


def _carries(value: Value, parent: ast.AST | None) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return any(map(str.isalnum, value))
    answers = isinstance(parent, ast.keyword) and parent.arg == ANSWER
    return answers or not (value in TRIVIAL or isinstance(parent, COMPUTING))


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""

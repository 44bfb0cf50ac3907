"""Parses one call that a policy wrote, without evaluating any of it.

BFCL's own executor evaluates the text. This module parses it, and accepts it only if it is one call
of a known tool by its plain name with literal arguments: strings, numbers, booleans, None, and
lists, tuples and dicts of those. It differs from evaluation as follows, only for texts that the
benchmark's ground truths never contain:

- it refuses arguments that have to be computed (nested calls, operators, f-strings, unpacking);
- it refuses names in them with the text of a NameError, even if Python knows them (``print``);
- it refuses bytes, complex numbers, sets and unpaired surrogates;
- it refuses text longer than ``MAX_CHARS`` or nested deeper than ``MAX_DEPTH``;
- BFCL's executor also rewrites tool names inside string literals if a parenthesis follows
  (``'use sort (x)'``); this module leaves string literals unchanged.
"""

import ast
import functools
from collections.abc import Container
from typing import NamedTuple

from coevolve.base.foreign import CODE, boundary, plain

MAX_CHARS = 20_000
MAX_DEPTH = 16

READ_CALLS = 1024
"""Number of calls whose parse is cached..."""

READ_CHARS = 200
"""... if they have at most this many characters: a parse takes hundreds of times its text's
memory."""


_NO_CALL = "not a call such as name(argument='value')"


class Call(NamedTuple):
    """An accepted call."""

    tool: str
    positional: tuple[object, ...]
    named: dict[str, object]


class NotACallError(ValueError):
    """The text is not one call expression; BFCL's decoders would drop it."""


class RefusedCallError(ValueError):
    """The text is a call, but one that may not be executed."""


def as_far_as_read(text: str) -> str:
    """Return the beginning of a text that decides the answer to it."""
    return text[: MAX_CHARS + 1]


def parse_call(text: str, tools: Container[str]) -> Call:
    """Return the call in ``text``.

    Raises:
        NotACallError: It is not a call expression.
        RefusedCallError: It calls something other than one of ``tools``, or has other arguments
        than
            literals.
    """
    with boundary(NotACallError, _NO_CALL, passes=(RefusedCallError,)):
        return _call(text, tools)


def _call(text: str, tools: Container[str]) -> Call:
    node = _remembered_call_node(text) if len(text) <= READ_CHARS else _call_node(text)
    if not isinstance(node.func, ast.Name):
        raise RefusedCallError(_root(node.func))
    if node.func.id not in tools:
        raise RefusedCallError(_unknown(node.func.id))
    named: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise RefusedCallError("arguments cannot be unpacked")
        if keyword.arg in named:
            raise NotACallError(f"keyword argument repeated: {plain(keyword.arg)}")
        named[keyword.arg] = _literal(keyword.value, MAX_DEPTH)
    positional = tuple(_literal(argument, MAX_DEPTH) for argument in node.args)
    return Call(node.func.id, positional, named)


def _call_node(text: str) -> ast.Call:
    """Return the parsed call; callers must not change it."""
    if len(text) > MAX_CHARS:
        raise NotACallError(f"a call has at most {MAX_CHARS} characters")
    try:
        node = ast.parse(text.strip(), CODE, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # The parser raises the last two for its own nesting limits.
        raise NotACallError(_NO_CALL) from error
    if not isinstance(node, ast.Call):
        raise NotACallError(_NO_CALL)
    return node


_remembered_call_node = functools.lru_cache(maxsize=READ_CALLS)(_call_node)
"""Policies write the same short calls many times."""


def _literal(node: ast.expr, depth: int) -> object:
    """Return the value of a literal that is nested at most ``depth`` deep."""
    if depth == 0:
        raise RefusedCallError(f"arguments may be nested {MAX_DEPTH} deep at most")
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            return _signed(sign, _literal(operand, depth - 1))
        case ast.List(elts=elements):
            return [_literal(element, depth - 1) for element in elements]
        case ast.Tuple(elts=elements):
            return tuple(_literal(element, depth - 1) for element in elements)
        case ast.Dict(keys=keys, values=values):
            return {
                _key(key): _literal(value, depth - 1)
                for key, value in zip(keys, values, strict=True)
            }
        case ast.Name(id=name):
            raise RefusedCallError(_unknown(name))
        case _:
            raise RefusedCallError("arguments must be literals")


def _constant(value: object) -> object:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise RefusedCallError("a string holds an unpaired surrogate")
        return value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise RefusedCallError("arguments must be literals")


def _signed(sign: ast.USub | ast.UAdd, value: object) -> object:
    if not isinstance(value, (int, float)):
        raise RefusedCallError("arguments must be literals")
    return -value if isinstance(sign, ast.USub) else +value


def _key(node: ast.expr | None) -> object:
    if not isinstance(node, ast.Constant):
        raise RefusedCallError("keys must be strings or numbers")
    return _constant(node.value)


def _root(node: ast.expr) -> str:
    """Return the error message for a callee that is not a plain name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return _unknown(node.id) if isinstance(node, ast.Name) else "a tool is called by its name"


def _unknown(name: str) -> str:
    return f"name '{plain(name)}' is not defined"

"""Reads messages exactly as BFCL's own loop does for models without tool calling.

A message that it cannot decode ends the turn, so there are no malformed calls. It leaves positional
arguments out, and takes a name for a text. Its executor then runs the calls' texts; here a
simulator parses them (`coevolve.environments.tools.calls`).

Deviation: it evaluates sums and the like in arguments, which a simulator here refuses.
"""

import ast
from typing import Any, cast

from coevolve.environments.tools.chat.call_text import check_length
from coevolve.environments.tools.chat.python_forms import bracketed, calls_in


def read_bfcl(text: str) -> tuple[str, ...]:
    """Return the calls that the loop executes; none where it goes on to the next turn."""
    source = bracketed(text)
    nodes = calls_in(source) or ()
    check_length(len(source) if nodes else 0)
    try:
        return tuple(_written(*_resolved(node)) for node in nodes)
    except (ValueError, TypeError, RecursionError):
        return ()


def _resolved(node: ast.Call) -> tuple[str, dict[str, Any]]:
    named = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    return _name(node.func), named


def _name(node: ast.expr) -> str:
    """Return the name behind a call; empty for another expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_name(value)}.{name}".lstrip(".")
        case _:
            return ""


class _Evaluated:
    """An expression that BFCL evaluates."""

    def __init__(self, node: ast.expr) -> None:
        if any(isinstance(each, ast.Name | ast.Call) for each in ast.walk(node)):
            raise ValueError("BFCL knows no names in such an expression")
        self._text = ast.unparse(node)

    def __repr__(self) -> str:
        return self._text


def _value(node: ast.expr | None) -> Any:
    """Return what BFCL takes for a value. Raises ValueError if it cannot decode it."""
    match node:
        case ast.Constant(value=value):
            return "..." if value is ... else value
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(operand=ast.Constant(value=number)):
            return -cast("Any", number)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            values = map(_value, elements)
            return list(values) if isinstance(node, ast.List) else tuple(values)
        case ast.Dict(keys=keys, values=values):
            return dict(zip(map(_value, keys), map(_value, values), strict=True))
        case ast.Call(keywords=[_, *_]):
            return dict([_resolved(node)])
        case ast.Call() | ast.Subscript():
            return ast.unparse(node)
        case ast.BinOp():
            return _Evaluated(node)
        case _:
            raise ValueError("BFCL cannot decode such a value")


def _written(name: str, named: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={_text(value)}' for key, value in named.items())})"


def _text(value: Any) -> str:
    """Return a value's text; a dict of dicts is taken for a call. Raises ValueError for {}."""
    if not isinstance(value, dict):
        return repr(value)
    inner = cast("dict[Any, Any]", value)
    if not inner:
        raise ValueError("BFCL cannot write an empty object")
    if not all(isinstance(each, dict) for each in inner.values()):
        return "{" + ", ".join(f"'{key}': {_text(each)}" for key, each in inner.items()) + "}"
    name, named = next(iter(inner.items()))
    return _written(str(name), named)

"""Reads the docstrings under fields and type aliases from the source; Python discards them."""

import ast
import functools
import importlib
import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec


def summary(kind: type) -> str:
    """Return the docstring of a class, with one line per paragraph."""
    return paragraphs(kind.__doc__ or "")


def meaning(kind: type[msgspec.Struct], field: str) -> str:
    """Return the docstring of a struct's field, followed by that of its type alias.

    A field that a subclass declares again without a docstring keeps the base's. Empty if there is
    no docstring.
    """
    for owner in kind.__mro__:
        declared = _fields(owner).get(field) if issubclass(owner, msgspec.Struct) else None
        said = declared and (declared.text, _alias(owner.__module__, declared.alias))
        if said and any(said):
            return "\n\n".join(each for each in said if each)
    return ""


def paragraphs(text: str) -> str:
    """Return a docstring with each paragraph on one line, separated by blank lines."""
    parts = inspect.cleandoc(text).replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts if part.strip())


@dataclass(frozen=True)
class _Declared:
    """A field in the source: its docstring, and its type's name if the type is a plain name."""

    text: str
    alias: str


@functools.cache
def _fields(kind: type) -> Mapping[str, _Declared]:
    module = sys.modules[kind.__module__]
    if not getattr(module, "__file__", None):
        return {}
    tree = _tree(kind.__module__)
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef))
    found = next((each for each in classes if each.name == kind.__name__), None)
    return {
        node.target.id: _Declared(
            text, node.annotation.id if isinstance(node.annotation, ast.Name) else ""
        )
        for node, text in _documented(found.body if found else ())
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def _documented(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with the docstring under it, or an empty string."""
    for node, after in itertools.zip_longest(body, body[1:]):
        match after:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node, paragraphs(text)
            case _:
                yield node, ""


def _alias(module: str, name: str) -> str:
    """Return the docstring of ``name = ...`` in a module, or in the module that defines it."""
    if not name:
        return ""
    importlib.import_module(module)
    for node, text in _documented(_tree(module).body):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                return text
            case ast.ImportFrom(module=str(source), names=names):
                if any(each.name == name for each in names):
                    return _alias(source, name)
            case _:
                pass
    return ""

"""Gives a value that a model wrote as bare text the type of its parameter.

The forms with a tag for each argument write texts and other values alike, so the tool's schema
decides, by the rules of the parsers that vLLM serves these forms with.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from coevolve.environments.tools.chat.json_forms import decoded

Schema = Mapping[str, Any]
Types = Mapping[str, Mapping[str, Schema]]
"""Tool -> parameter -> its JSON Schema."""

_OTHER_NAMES = {
    **dict.fromkeys(("str", "text", "varchar", "char", "enum"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "uint", "uint32", "uint64"), "integer"),
    **dict.fromkeys(("long", "short", "unsigned"), "integer"),
    **dict.fromkeys(("float", "float32", "float64", "double"), "number"),
    **dict.fromkeys(("arr", "list", "sequence"), "array"),
    "bool": "boolean",
    "dict": "object",
}


def typed(text: str, schema: Schema | None) -> object:
    """Return the value in the first type of the schema that it fits, else as text."""
    if schema is None:
        return text
    kinds = {_OTHER_NAMES.get(kind, kind) for kind in _kinds(schema) or {"string"}}
    for kind, read in _READERS.items():
        if kind in kinds:
            try:
                return read(text)
            except (ValueError, RecursionError, OverflowError):
                continue
    return _any(text)


def _kinds(schema: Schema) -> set[str]:
    """Return all types that a schema allows, at any of its alternatives."""
    found = schema.get("type", ())
    kinds = {str(kind).strip().lower() for kind in ([found] if isinstance(found, str) else found)}
    kinds |= {_NAMES[type(value)] for value in schema.get("enum") or () if type(value) in _NAMES}
    for word in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(word) or ():
            is_schema = isinstance(choice, dict)
            kinds |= _kinds(cast("Schema", choice)) if is_schema else {"string"}
    return kinds


_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def _null(text: str) -> None:
    if text.lower() != "null":
        raise ValueError


def _number(text: str) -> float | int:
    number = float(text)
    return int(number) if number == int(number) else number


def _boolean(text: str) -> bool:
    match text.lower().strip():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
        case _:
            raise ValueError


def _finite(text: str) -> object:
    value = decoded(text)
    json.dumps(value, allow_nan=False)
    return value


def _any(text: str) -> object:
    try:
        return _finite(text)
    except (ValueError, RecursionError):
        return text


_READERS: Mapping[str, Callable[[str], object]] = {
    "null": _null,
    "integer": int,
    "number": _number,
    "boolean": _boolean,
    "object": _finite,
    "array": _finite,
    "string": str,
}
"""By rank: the first that fits decides."""


def parameter_types(tools: "list[dict[str, Any]]") -> Types:
    """Return the types of all parameters of tools in OpenAI's format."""
    functions = [cast("dict[str, Any]", tool["function"]) for tool in tools]
    return {each["name"]: each["parameters"].get("properties", {}) for each in functions}


def alike(one: object, other: object) -> bool:
    """Return whether two values are the same in JSON, which has no tuples and one number type."""
    match one, other:
        case (dict(), dict()):
            first, second = cast("dict[Any, Any]", one), cast("dict[Any, Any]", other)
            same_keys = first.keys() == second.keys()
            return same_keys and all(alike(first[key], second[key]) for key in first)
        case (list() | tuple(), list() | tuple()):
            some, others = cast("list[Any]", one), cast("list[Any]", other)
            return len(some) == len(others) and all(map(alike, some, others))
        case _:
            return one == other and isinstance(one, bool) == isinstance(other, bool)

"""Tools as lines of Python signatures, in a fraction of the tokens of their JSON.

Of the documents, a line keeps names, types and defaults of parameters, and the first sentence of
the description: what small models, and short contexts, need to make a call.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PART = re.compile(r"(?<=[.!?:])\s+")


def signatures(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each tool in OpenAI's format: ``cat(file_name: str)  # Show a file.``."""
    functions = [tool["function"] for tool in tools]
    said = [" ".join(str(each.get("description") or "").split()) for each in functions]
    same = _same_start(said)
    pairs = zip(functions, said, strict=True)
    return "\n".join(_line(function, text[same:]) for function, text in pairs)


def _same_start(said: Sequence[str]) -> int:
    """Return the length of the sentences with which all descriptions begin."""
    common = os.path.commonprefix(list(said)) if len(said) > 1 else ""  # noqa: RUF071 - characters
    ends = [found.end() for found in _PART.finditer(common)]
    return ends[-1] if ends else 0


def _line(function: Mapping[str, Any], said: str) -> str:
    parameters: Mapping[str, Any] = function.get("parameters", {})
    required: Sequence[str] = parameters.get("required", ())
    properties: Mapping[str, Mapping[str, Any]] = parameters.get("properties", {})
    named = [
        _parameter(name, schema, is_required=name in required)
        for name, schema in properties.items()
    ]
    first = _SENTENCE.split(said, maxsplit=1)[0]
    told = f"  # {first}" if first else ""
    return f"{function['name']}({', '.join(named)}){told}"


def _parameter(name: str, schema: Mapping[str, Any], *, is_required: bool) -> str:
    typed = f"{name}: {_type(schema)}"
    return typed if is_required else f"{typed} = {schema.get('default')!r}"


def _type(schema: Mapping[str, Any]) -> str:
    if choices := schema.get("enum"):
        return " | ".join(map(repr, choices))
    kinds = schema.get("type", ())
    names = [kinds] if isinstance(kinds, str) else kinds
    return " | ".join(_TYPES.get(each, each) for each in names) or "Any"

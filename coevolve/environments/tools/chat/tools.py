"""BFCL's tools and reference calls for chat templates: as JSON Schema and JSON objects.

Tools are also lines of Python signatures, in a fraction of the tokens. Of the documents, a line
keeps names, types and defaults of parameters, and the first sentence of the description: what small
models, and short contexts, need to make a call.
"""

import os
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, cast

from coevolve.environments.tools.calls import parse_call
from coevolve.environments.tools.toolset import ToolDocument
from coevolve.environments.tools.toolsets import tool_documents, tool_set

_JSON_TYPES = {"dict": "object", "float": "number"}
"""The two types that have other names in BFCL than in JSON Schema."""


def schemas(classes: Sequence[str], without: Container[str] = ()) -> list[dict[str, Any]]:
    """Return the tools of ``classes``, except ``without``, in the format of OpenAI's ``tools``."""
    return [
        {"type": "function", "function": _function(document)}
        for name in classes
        for document in tool_documents(name)
        if document.name not in without
    ]


def named_arguments(call: str, classes: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return the tool of a reference call, and its arguments by name.

    Raises ValueError if it is not a call of a tool of ``classes`` with literals.
    """
    parameters = {
        name: names for each in classes for name, names in tool_set(each).parameters.items()
    }
    parsed = parse_call(call, parameters)
    positional = zip(parameters[parsed.tool], parsed.positional, strict=False)
    return parsed.tool, dict(positional) | parsed.named


def _function(document: ToolDocument) -> dict[str, Any]:
    return {
        "name": document.name,
        "description": document.description,
        "parameters": _as_json_schema(document.parameters),
    }


def _as_json_schema(found: Any) -> Any:
    if isinstance(found, list):
        return [_as_json_schema(each) for each in cast("list[Any]", found)]
    if not isinstance(found, dict):
        return found
    return {
        key: _JSON_TYPES.get(value, value)
        if key == "type" and isinstance(value, str)
        else _as_json_schema(value)
        for key, value in cast("dict[str, Any]", found).items()
    }


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
    parameters: Mapping[str, Any] = function.get("parameters") or {}
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

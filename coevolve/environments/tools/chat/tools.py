"""BFCL's tools and reference calls for chat templates: as JSON Schema and JSON objects."""

from collections.abc import Container, Sequence
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

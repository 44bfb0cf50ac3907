"""Writes calls in each form, independently of any template, and values that are hard to write."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from coevolve.environments.tools.chat.call_text import call_text, python_list
from coevolve.environments.tools.chat.calls import CallForm
from coevolve.environments.tools.chat.typed import parameter_types

PARAMETERS: Mapping[str, Mapping[str, object]] = {
    "key": {"type": "string"},
    "value": {"type": ["string", "integer", "number", "boolean", "array", "object", "null"]},
    "count": {"type": "integer"},
    "flag": {"type": "boolean"},
    "many": {"type": "array"},
    "obj": {"type": "object"},
    "maybe": {"type": ["string", "null"]},
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Does it.",
            "parameters": {"type": "object", "properties": PARAMETERS},
        },
    }
    for name in ("put", "get", "ls")
]
TYPES = parameter_types(TOOLS)

Arguments = Mapping[str, object]


def _tags(name: str, arguments: Arguments) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def _json(name: str, arguments: Arguments) -> str:
    return json.dumps({"name": name, "parameters": arguments}, ensure_ascii=False) + "; "


def _python(name: str, arguments: Arguments) -> str:
    return python_list((call_text(name, arguments),))


def _wrapped(name: str, arguments: Arguments) -> str:
    return f"<|tool_call_start|>{_python(name, arguments)}<|tool_call_end|>"


def _bare(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _xml(name: str, arguments: Arguments) -> str:
    said = "".join(
        f"<parameter={key}>\n{_bare(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{said}</function>\n</tool_call>"


def _keys(name: str, arguments: Arguments) -> str:
    said = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_bare(value)}</arg_value>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>{name}\n{said}</tool_call>"


WRITERS: Mapping[CallForm, Callable[[str, Arguments], str]] = {
    "tags": _tags,
    "xml": _xml,
    "keys": _keys,
    "json": _json,
    "wrapped": _wrapped,
    "pythonic": _python,
    "python": _python,
    "bfcl": _python,
}

_PIECES = (
    *("a", "", " ", "a b", "'", '"', "it's", '"quoted"', "\\", "\n", "a\n\nb", "\t", "\r\n"),
    "ü😀",
    *("</tool_call>", "<tool_call>", "</think>", "<think>", "```", "```python\nx\n```", "{", "}"),
    *("[f(a=1)]", "{}", '{"name": "ls"}', "</parameter>", "<parameter=b>", "</function>"),
    *("<function=ls>", "</arg_value>", "<arg_key>", "<|tool_call_end|>", "<|tool_call_start|>"),
    *("1", "true", "null", "None", "0.5", "#", "a, b", "a)", "]", ";", "$x", "%s", "\0", "\x7f"),
)


def values() -> list[object]:
    """Return 200 values: texts that spell parts of the forms, and all other types of JSON."""
    joined = [f"{one} {other}" for one, other in zip(_PIECES, _PIECES[7:], strict=False)]
    lists = [[each, {"key": each}] for each in _PIECES]
    objects = [{each or "x": [each, None, 1.5]} for each in _PIECES]
    others: list[object] = [
        0,
        -1,
        10**20,
        0.5,
        -2.5,
        1e300,
        True,
        False,
        None,
        [],
        {},
        [[]],
        {"a": {}},
    ]
    made: list[object] = [*_PIECES, *joined, *others, *lists, *objects]
    return made[:200]

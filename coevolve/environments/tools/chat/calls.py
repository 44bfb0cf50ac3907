"""Parses the forms in which chat models write calls into the simulators' call expressions.

- ``tags``: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, any number in sequence,
with
  or without text around them (Hermes, Qwen2.5, Qwen3);
- ``json``: ``{"name": ..., "parameters": {...}}`` and nothing else; semicolons separate several
  (Llama 3);
- ``python``: ``[f(a=1), g()]`` and nothing else (BFCL's own prompt, pythonic templates).

A message without calls is plain text and gives no calls. A message that begins a call but is not a
valid one is an error. Nothing is ever evaluated; the simulator decides which tools exist.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

CallForm = Literal["tags", "json", "python"]

_BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_SEPARATOR = re.compile(r"[\s;,]*")
_PYTHON_TAG = "<|python_tag|>"
"""The token that Llama 3 may write before a call."""

_FENCE = re.compile(r"```(?:python|json)?\s*\n(.*?)\n?```", re.DOTALL)
_CALL_AHEAD = re.compile(r"\[|[A-Za-z_][\w.]*\(")
_TOOL_NAME = re.compile(r"[A-Za-z_][\w.]*\Z")


def call_text(name: str, arguments: Mapping[str, object]) -> str:
    """Return the call expression. Raises ValueError if a name is not valid in it."""
    if not _TOOL_NAME.match(name):
        raise ValueError(f"a call needs the name of a tool, found {name!r}")
    for argument in arguments:
        if not argument.isidentifier():
            raise ValueError(f"a call of {name} needs names of arguments, found {argument!r}")
    written = ", ".join(f"{argument}={value!r}" for argument, value in arguments.items())
    return f"{name}({written})"


def python_list(calls: tuple[str, ...]) -> str:
    """Return calls in the form ``python``."""
    return f"[{', '.join(calls)}]"


def spoken(text: str, *, thinking: bool) -> str:
    """Return the part of a message after its thinking.

    ``thinking`` says whether the generation began inside the thinking. Raises ValueError if the
    thinking does not end.
    """
    _, end, words = text.rpartition("</think>")
    if not end and (thinking or text.lstrip().startswith("<think>")):
        raise ValueError("a message needs to end its thinking by </think>, found no end")
    return words.strip()


def read_tags(text: str) -> tuple[str, ...]:
    """Return the calls of the form ``tags``. Raises ValueError."""
    blocks = _BLOCK.findall(text)
    if not len(blocks) == text.count("<tool_call>") == text.count("</tool_call>"):
        raise ValueError("every <tool_call> needs its </tool_call>")
    return tuple(_call(_decoded(block)) for block in blocks)


def read_json(text: str) -> tuple[str, ...]:
    """Return the calls of the form ``json``. Raises ValueError."""
    text = text.strip().removeprefix(_PYTHON_TAG).strip()
    if not text.startswith("{"):
        return ()
    calls: list[str] = []
    position = 0
    while position < len(text):
        found, position = _decoded_from(text, position)
        calls.append(_call(found))
        separator = _SEPARATOR.match(text, position)
        position = separator.end() if separator else position
    return tuple(calls)


def read_python(text: str) -> tuple[str, ...]:
    """Return the calls of the form ``python``, fenced or not. Raises ValueError."""
    text = text.strip()
    fenced = _FENCE.fullmatch(text)
    text = fenced[1].strip() if fenced else text
    if not _CALL_AHEAD.match(text):
        return ()
    source = text if text.startswith("[") else f"[{text}]"
    try:
        node = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # The parser raises the last two for its own nesting limits.
        raise ValueError("calls need the form [f(a=1), g()]") from error
    if not isinstance(node, ast.List) or not all(isinstance(e, ast.Call) for e in node.elts):
        raise ValueError("calls need the form [f(a=1), g()]")
    return tuple(ast.get_source_segment(source, element) or "" for element in node.elts)


READERS: Mapping[CallForm, Callable[[str], tuple[str, ...]]] = {
    "tags": read_tags,
    "json": read_json,
    "python": read_python,
}


class _Written(msgspec.Struct, frozen=True):
    """A call as JSON; models use either name for its arguments."""

    name: str
    arguments: dict[str, Any] = {}
    parameters: dict[str, Any] = {}


def _call(found: object) -> str:
    written = msgspec.convert(found, _Written)
    return call_text(written.name, written.arguments or written.parameters)


def _decoded(text: str) -> object:
    found, end = _decoded_from(text, len(text) - len(text.lstrip()))
    if text[end:].strip():
        raise ValueError("a call needs one JSON object, found more")
    return found


def _decoded_from(text: str, position: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except RecursionError as error:
        raise ValueError("a call is nested too deep") from error


def _no_number(word: str) -> float:
    raise ValueError(f"JSON has no number {word}")


_DECODER = json.JSONDecoder(parse_constant=_no_number)

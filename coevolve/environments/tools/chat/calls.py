"""Parses the forms in which chat models write calls into the simulators' call expressions.

- ``tags``: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, any number in sequence,
with
  or without text around them (Hermes, Qwen2.5, Qwen3);
- ``json``: ``{"name": ..., "parameters": {...}}`` and nothing else; semicolons separate several
  (Llama 3);
- ``python``: ``[f(a=1), g()]`` and nothing else (BFCL's own prompt, pythonic templates).

A message without calls is plain text and gives no calls. A message that begins a call but is not a
valid one is an error. Nothing is ever evaluated; the simulator decides which tools exist.

The readers return for any message, in time proportional to its length; only `MAX_CHARS` characters
of calls are parsed.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from coevolve.environments.tools.calls import MAX_CHARS
from coevolve.foreign import CODE, boundary, shown

CallForm = Literal["tags", "json", "python"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_SEPARATOR = re.compile(r"[\s;,]*")
_PYTHON_TAG = "<|python_tag|>"
"""The token that Llama 3 may write before a call."""

_FENCE = "```"
_LANGUAGES = ("", "python", "json")
_LINE_END = re.compile(rb"\r\n?|\n")
_NEEDED = "calls need the form [f(a=1), g()]"
_CALL_AHEAD = re.compile(r"\[|[A-Za-z_][\w.]*\(")
_TOOL_NAME = re.compile(r"[A-Za-z_][\w.]*\Z")


class MalformedCallsError(ValueError):
    """A message begins a call that cannot be read; the sentence may be shown to the policy."""


def read_calls(form: CallForm, message: str) -> tuple[str, ...]:
    """Return the calls of a message; none if it has none. Raises MalformedCallsError."""
    with boundary(MalformedCallsError, f"calls of the form {form} cannot be read"):
        return _READERS[form](message)


def call_text(name: str, arguments: Mapping[str, object]) -> str:
    """Return the call expression. Raises ValueError if a name is not valid in it."""
    if not _TOOL_NAME.match(name):
        raise ValueError(f"a call needs the name of a tool, found {shown(name)}")
    for argument in arguments:
        if not argument.isidentifier():
            raise ValueError(f"a call of {name} needs names of arguments, found {shown(argument)}")
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


def _read_tags(text: str) -> tuple[str, ...]:
    before, *blocks = text.split(_OPEN)
    if _CLOSE in before or not all(block.count(_CLOSE) == 1 for block in blocks):
        raise MalformedCallsError("every <tool_call> needs its </tool_call>")
    calls = [block.partition(_CLOSE)[0] for block in blocks]
    _check_length(sum(map(len, calls)))
    return tuple(_call(_decoded(call)) for call in calls)


def _read_json(text: str) -> tuple[str, ...]:
    text = text.strip().removeprefix(_PYTHON_TAG).strip()
    if not text.startswith("{"):
        return ()
    _check_length(len(text))
    calls: list[str] = []
    position = 0
    while position < len(text):
        found, position = _decoded_from(text, position)
        calls.append(_call(found))
        separator = _SEPARATOR.match(text, position)
        position = separator.end() if separator else position
    return tuple(calls)


def _read_python(text: str) -> tuple[str, ...]:
    text = _unfenced(text.strip())
    if not _CALL_AHEAD.match(text):
        return ()
    _check_length(len(text))
    source = text if text.startswith("[") else f"[{text}]"
    try:
        node = ast.parse(source, CODE, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # The parser raises the last two for its own nesting limits.
        raise MalformedCallsError(_NEEDED) from error
    if not isinstance(node, ast.List) or not all(isinstance(e, ast.Call) for e in node.elts):
        raise MalformedCallsError(_NEEDED)
    return _segments(source, node.elts)


_READERS: Mapping[CallForm, Callable[[str], tuple[str, ...]]] = {
    "tags": _read_tags,
    "json": _read_json,
    "python": _read_python,
}

FORMS = tuple(_READERS)


def _check_length(chars: int) -> None:
    if chars > MAX_CHARS:
        raise MalformedCallsError(f"calls have at most {MAX_CHARS} characters, found {chars}")


def _unfenced(text: str) -> str:
    """Return the text inside of a fence with an end; another text unchanged."""
    language, newline, inner = text.removeprefix(_FENCE).partition("\n")
    fenced = text.startswith(_FENCE) and newline and inner.endswith(_FENCE)
    if fenced and language.strip() in _LANGUAGES:
        return inner.removesuffix(_FENCE).strip()
    return text


def _segments(source: str, nodes: Sequence[ast.expr]) -> tuple[str, ...]:
    """Return the text of each node; `ast.get_source_segment` splits the source for each anew."""
    encoded = source.encode()
    lines = [0, *(end.end() for end in _LINE_END.finditer(encoded))]
    return tuple(
        encoded[
            lines[node.lineno - 1] + node.col_offset : lines[(node.end_lineno or node.lineno) - 1]
            + (node.end_col_offset or 0)
        ].decode()
        for node in nodes
    )


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

"""Reads calls that are JSON objects, in tags or among words.

What is a call, and what is not, is as in the parsers that vLLM serves these forms with (``hermes``
and ``llama3_json``). The deviations:

- the end of its JSON ends a call in tags, where that parser looks for the next ``</tool_call>``,
  also inside of strings;
- arguments have to be an object; null and an empty text count as no arguments.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from coevolve.base.foreign import shown
from coevolve.environments.tools.chat.call_text import (
    MalformedCallsError,
    call_text,
    check_length,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"

PYTHON_TAG = "<|python_tag|>"
"""The token that Llama 3 may write before a call."""

_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = re.compile(r'\{.*"(?:name|arguments|parameters)"\s*:', re.DOTALL)
_ONE_OBJECT = 'a call needs the form {"name": ..., "arguments": {...}}'


def read_tags(text: str) -> tuple[str, ...]:
    """Return the calls in tags. Raises ValueError."""
    calls: list[str] = []
    start = text.find(OPEN)
    while start >= 0:
        check_length(len(text) - start)
        found, end = _decoded(text, _after_space(text, start + len(OPEN)))
        calls.append(_call(found, ("arguments",)))
        end = _after_space(text, end)
        if end < len(text) and not text.startswith(CLOSE, end):
            raise MalformedCallsError(
                f"a call needs {CLOSE} after its one JSON object, found {shown(text[end:])}"
            )
        start = text.find(OPEN, end)
    return tuple(calls)


def read_json(text: str) -> tuple[str, ...]:
    """Return the calls among words; a message with another object has none. Raises ValueError."""
    calls: list[str] = []
    start = text.find("{")
    if start < 0 and PYTHON_TAG in text:
        raise MalformedCallsError(f'{_ONE_OBJECT}, with "parameters", found {shown(text)}')
    while start >= 0:
        try:
            check_length(len(text) - start)
            found, end = _decoded(text, start)
            calls.append(_call(found, ("arguments", "parameters")))
        except ValueError:
            if not calls and not _is_attempt(text, start):
                return ()
            raise
        start = text.find("{", end)
        if start == end:
            raise MalformedCallsError("two calls need a semicolon between them, found none")
    return tuple(calls)


def _is_attempt(text: str, start: int) -> bool:
    """Return whether what begins at ``start`` is a call with a fault, and not other words."""
    try:
        found, _ = _decoded(text, start)
    except ValueError:
        return PYTHON_TAG in text or bool(_KEY.match(text, start))
    keys = cast("Mapping[str, object]", found).keys()
    return bool(keys & {"arguments", "parameters", "function"}) or set(keys) == {"name"}


def _call(found: object, places: tuple[str, ...]) -> str:
    """Return the call of an object whose arguments stand in the first of ``places`` it has."""
    if not isinstance(found, dict):
        raise MalformedCallsError(f"{_ONE_OBJECT}, found {shown(found)}")
    written = cast("dict[str, Any]", found)
    place = next((each for each in places if each in written), None)
    name = written.get("name")
    if not isinstance(name, str) or place is None:
        missing = "name" if not isinstance(name, str) else places[-1]
        raise MalformedCallsError(f'{_ONE_OBJECT}, found none with "{missing}"')
    arguments = written[place]
    if arguments is None or arguments == "":
        arguments = {}
    if not isinstance(arguments, dict):
        raise MalformedCallsError(f"{name} needs an object of arguments, found {shown(arguments)}")
    return call_text(name, cast("dict[str, object]", arguments))


def decoded(text: str) -> object:
    """Return the value of a text that is JSON as a whole. Raises ValueError."""
    found, end = _decoded(text, _after_space(text, 0))
    if _after_space(text, end) < len(text):
        raise ValueError("it needs one JSON value, found more")
    return found


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _decoded(text: str, position: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except RecursionError as error:
        raise MalformedCallsError("a call is nested too deep") from error
    except json.JSONDecodeError as error:
        raise MalformedCallsError(
            f"a call needs to be JSON: {error.msg} at {shown(text[error.pos : error.pos + 20])}"
        ) from error


def _no_number(word: str) -> float:
    raise ValueError(f"JSON has no number {word}")


_DECODER = json.JSONDecoder(parse_constant=_no_number)

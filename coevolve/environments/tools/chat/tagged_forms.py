"""Reads calls with a tag for each argument.

- ``xml``: ``<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>``
  (Qwen3-Coder, Qwen3.5, Nemotron 3);
- ``keys``: ``<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`` (GLM).

The tags that end a call may be missing, as in the parsers that vLLM serves these forms with
(``qwen3_xml`` and ``glm47``). Those parsers also take calls of which they may lose a part: words
between arguments, an argument without an end, the rest of a value after a tag inside of it, a name
without an end. Such calls are malformed here.
"""

import re

from coevolve.base.foreign import shown
from coevolve.environments.tools.chat.call_text import (
    MalformedCallsError,
    call_text,
    check_length,
)
from coevolve.environments.tools.chat.json_forms import CLOSE, OPEN
from coevolve.environments.tools.chat.typed import Types, typed

_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER = re.compile(r"\s*<\s*parameter\s*=\s*([^>\n]+)>(.*?)<\s*/\s*parameter\s*>", re.DOTALL)
_PAIR = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


def read_xml(text: str, types: Types) -> tuple[str, ...]:
    """Return the calls of the form ``xml``. Raises ValueError."""
    calls: list[str] = []
    start = text.find(_FUNCTION)
    check_length(len(text) - start if start >= 0 else 0)
    while start >= 0:
        name_end = text.find(">", start)
        if name_end < 0:
            raise MalformedCallsError(f"a call needs <function=NAME>, found {shown(text[start:])}")
        body, end, _ = text[name_end + 1 :].partition(_FUNCTION_END)
        # Its last tag may be missing, and then the tag around it is part of the rest.
        pairs = _parameters(body if end else body.rstrip().removesuffix(CLOSE))
        calls.append(_call(text[start + len(_FUNCTION) : name_end], pairs, types))
        start = text.find(_FUNCTION, name_end + 1 + len(body))
    if not calls and OPEN in text:
        raise MalformedCallsError(f"{OPEN} needs <function=NAME> in it, found {shown(text)}")
    return tuple(calls)


def read_keys(text: str, types: Types) -> tuple[str, ...]:
    """Return the calls of the form ``keys``. Raises ValueError."""
    calls: list[str] = []
    start = text.find(OPEN)
    check_length(len(text) - start if start >= 0 else 0)
    while start >= 0:
        body = text[start + len(OPEN) :].partition(CLOSE)[0]
        name = body.partition("<arg_key>")[0]
        if types and name.strip() not in types:
            raise MalformedCallsError(f"there is no tool {shown(name.strip())}")
        calls.append(_call(name, _pairs(body[len(name) :], _PAIR), types))
        start = text.find(OPEN, start + len(OPEN) + len(body))
    return tuple(calls)


def _parameters(body: str) -> dict[str, str]:
    """Return arguments without the line ends that the form puts around their values."""
    pairs = _pairs(body, _PARAMETER)
    for key, value in pairs.items():
        if "<parameter=" in value:
            raise MalformedCallsError(f"the argument {shown(key)} needs </parameter>, found none")
        pairs[key] = value.removeprefix("\n").removesuffix("\n")
    return pairs


def _pairs(body: str, pattern: re.Pattern[str]) -> dict[str, str]:
    """Return all arguments. Raises MalformedCallsError if something stands between them."""
    pairs: dict[str, str] = {}
    position = 0
    while found := pattern.match(body, position):
        pairs[found[1].strip()] = found[2]
        position = found.end()
    if rest := body[position:].strip():
        raise MalformedCallsError(f"a call needs each argument in its tags, found {shown(rest)}")
    return pairs


def _call(name: str, pairs: dict[str, str], types: Types) -> str:
    schemas = types.get(name.strip(), {})
    return call_text(name.strip(), {key: typed(pairs[key], schemas.get(key)) for key in pairs})

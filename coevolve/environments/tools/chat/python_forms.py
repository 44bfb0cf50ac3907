"""Reads calls that are lists of Python calls. Nothing is ever evaluated.

- ``python``: the form that `policy.chat.tools: prompt` asks for. A message is decoded as BFCL's
  loop does for models without tool calling, but a call keeps its positional arguments.
- ``pythonic``: what vLLM's parser ``pythonic`` takes; ``wrapped``: the same in LFM2's two tokens,
  with the parser ``lfm2``. Those parsers also drop words after a list, further lists and positional
  arguments; such messages are malformed here.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from coevolve.base.foreign import CODE, shown
from coevolve.environments.tools.chat.call_text import (
    MalformedCallsError,
    call_text,
    check_length,
)

_NEEDED = "calls need the form [f(a=1), g()], and nothing else in the message"
_FENCE = "`\n "
_CALL_AHEAD = re.compile(r"\[?[ \n]*[A-Za-z_][\w.]*\(")
_SERVED_HEAD = re.compile(r"\[[A-Za-z]\w*\((?:\)|[A-Za-z]\w*=)")
_LABEL = re.compile(r"(?:\w{1,20}(?![\w.]))?\s*(?=\[|[A-Za-z_][\w.]*\()")
_NEXT_CALL = re.compile(r"[ \t]*[\r\n]\s*\[?[A-Za-z_][\w.]*\(")
_LINE_END = re.compile(rb"\r\n?|\n")
_BLANKED = re.compile(
    r"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^\\'])*'|\"(?:\\.|[^\\\"])*\"", re.DOTALL
)
_BRACKETS = {")": "(", "]": "[", "}": "{"}

START, END = "<|tool_call_start|>", "<|tool_call_end|>"
MOST_ENDS = 16
"""Maximum ends of a list of calls that are tried, since a string may contain one."""


def read_python(text: str) -> tuple[str, ...]:
    """Return the calls of the form ``python``. Raises MalformedCallsError."""
    source = bracketed(text)
    nodes = calls_in(source)
    if nodes is None:
        if _is_attempt(text):
            raise MalformedCallsError(_NEEDED)
        return ()
    check_length(len(source))
    return _segments(source, nodes)


def read_pythonic(text: str) -> tuple[str, ...]:
    """Return the calls of the form ``pythonic``. Raises ValueError."""
    begun = bool(_SERVED_HEAD.match(text))
    whole = begun and text.endswith("]") and text[:-1].rstrip().endswith(")")
    nodes = calls_in(text) if whole else None
    if nodes is None:
        if begun or _is_attempt(text):
            raise MalformedCallsError(_NEEDED)
        return ()
    check_length(len(text))
    return tuple(map(_served, nodes))


def read_wrapped(text: str) -> tuple[str, ...]:
    """Return the calls of the form ``wrapped``. Raises ValueError."""
    _, begun, block = text.partition(START)
    if not begun:
        return ()
    check_length(len(block))
    for end in _ends(block):
        part = block[:end].strip()
        for source in (part, _escaped(part, _STRING), *_requoted(part)):
            nodes = calls_in(source) if source.startswith("[") else None
            if nodes and START in block[end:]:
                raise MalformedCallsError(f"all calls need to stand in one {START}[...]{END}")
            if nodes:
                return tuple(map(_served, nodes))
    raise MalformedCallsError(f"calls need the form {START}[f(a=1), g()]{END}, found {shown(text)}")


def _ends(block: str) -> Iterator[int]:
    """Yield where the list may end: at one of the first tags of an end, or with the message."""
    end = block.find(END)
    if end < 0:
        yield len(block)
    for _ in range(MOST_ENDS):
        if end < 0:
            return
        yield end
        end = block.find(END, end + 1)


def bracketed(text: str) -> str:
    """Return the list that BFCL's loop tries to decode."""
    text = text.strip(_FENCE)
    text = text if text.startswith("[") else f"[{text}"
    return text if text.endswith("]") else f"{text}]"


def calls_in(source: str) -> Sequence[ast.Call] | None:
    """Return the calls of a list; None if it is no list of calls."""
    try:
        node = ast.parse(source.strip(), CODE, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The parser raises the last two for its own nesting limits.
        return None
    if not isinstance(node, ast.List):
        return None
    calls = [each for each in node.elts if isinstance(each, ast.Call)]
    return calls if len(calls) == len(node.elts) else None


def _is_attempt(text: str) -> bool:
    """Return whether a message that is no list of calls was meant as one, and not as words.

    Words may begin with a whole call and go on after it.
    """
    bare = text.strip(_FENCE)
    labelled = _LABEL.match(bare) if text.lstrip().startswith("```") else None
    bare = bare[labelled.end() :] if labelled else bare
    return bool(_CALL_AHEAD.match(bare)) and not _goes_on(bare)


def _goes_on(text: str) -> bool:
    """Return whether more follows the bracket that closes the first one, beside other calls.

    Another call may stand on the next line.
    """
    blanked = _BLANKED.sub(lambda found: "_" * len(found[0]), text)
    opened: list[str] = []
    for position, char in enumerate(blanked):
        if char in "([{":
            opened.append(char)
        elif char in _BRACKETS:
            if not opened or opened.pop() != _BRACKETS[char]:
                return False
            if not opened:
                rest = text[position + 1 :]
                if _NEXT_CALL.match(rest):
                    return False
                return bool(rest.strip()) and not rest.lstrip().startswith((",", "]", ";"))
    return False


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


def _served(node: ast.Call) -> str:
    """Return a call whose arguments are JSON values by name. Raises ValueError."""
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        raise MalformedCallsError("a call needs the name of each argument, found one without")
    arguments = {keyword.arg: _json_value(keyword.value) for keyword in node.keywords}
    return call_text(_name(node.func), json.loads(json.dumps(arguments, allow_nan=False)))


def _name(node: ast.expr) -> str:
    """Return a name, with dots or without. Raises ValueError."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_name(value)}.{name}"
        case _:
            raise MalformedCallsError("a call needs the name of a tool")


_JSON_NAMES = {"null": None, "true": True, "false": False}


def _json_value(node: ast.expr) -> Any:
    """Return a literal that JSON has, too. Raises ValueError."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return [_json_value(each) for each in elements]
        case ast.Dict(keys=keys, values=values):
            names = [each.value for each in keys if isinstance(each, ast.Constant)]
            if len(names) == len(keys):
                return dict(zip(names, map(_json_value, values), strict=True))
        case ast.JoinedStr(values=parts) if all(isinstance(each, ast.Constant) for each in parts):
            return "".join(str(each.value) for each in parts if isinstance(each, ast.Constant))
        case ast.Name(id=name) if name in _JSON_NAMES:
            return _JSON_NAMES[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            number = _json_value(operand)
            if isinstance(number, int | float) and not isinstance(number, bool):
                return -number if isinstance(sign, ast.USub) else number
        case _:
            pass
    raise MalformedCallsError("a call needs literals as arguments, found another expression")


def _requoted(text: str) -> Iterator[str]:
    """Yield Python text whose strings hold their own quote as it is, if they can end in one way.

    A quote ends its string only before a comma, a colon or a bracket that closes.
    """
    shortest, longest = (_escaped(text, pattern) for pattern in (_SHORTEST, _LONGEST))
    if shortest == longest or calls_in(longest) is None:
        yield shortest


def _escaped(text: str, strings: re.Pattern[str]) -> str:
    """Return Python text with escapes for quotes and line ends in strings, and no leading zeros."""
    return strings.sub(_with_escapes, text)


_ZEROS = r"|(?<![\w.])0+(?=[1-9])"
_STRING = re.compile(rf"(['\"])((?:\\.|(?!\1)[^\\])*)\1{_ZEROS}", re.DOTALL)
_SHORTEST = re.compile(rf"(['\"])((?:\\.|[^\\])*?)\1(?=\s*[,:)\]}}]){_ZEROS}", re.DOTALL)
_LONGEST = re.compile(
    rf"(['\"])((?:\\.|(?!\1)[^\\])*(?=\1\s*[,:)\]}}])|(?:\\.|[^\\])*)\1(?=\s*[,:)\]}}]){_ZEROS}",
    re.DOTALL,
)
_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def _with_escapes(found: re.Match[str]) -> str:
    quote, inner = found[1], found[2]
    if quote is None:
        return ""
    inner = re.sub(rf"(\\.)|{quote}", lambda each: each[1] or f"\\{quote}", inner, flags=re.DOTALL)
    return quote + "".join(_CONTROL.get(char, char) for char in inner) + quote

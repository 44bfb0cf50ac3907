"""Blocks of code as text: those in a policy's message, and the APIs that a block names."""

import ast
import re
from collections.abc import Iterator

from coevolve.base.foreign import CODE
from coevolve.environments.sdk import boundary

MAX_CHARS = 20_000
"""Maximum characters of a block that is read for patterns, and that is executed."""

_PYTHON = r"(?:(?:i?python|py)[\d.]*)?"
"""Labels of code that is executed; a block with another one, for example ``json``, is not."""

_OPENING = re.compile(
    rf"(?:^[ \t]*|(?=`{{3,}}[ \t]*{_PYTHON}[ \t]*\r?\n))(`{{3,}})[ \t]*([^\s`]*)[^\n`]*\n",
    re.IGNORECASE | re.MULTILINE,
)
"""A fence at the beginning of a line, or, after words, one for Python."""

_TOKEN = re.compile(
    r"\'\'\'(?:\\.|[^\\])*?\'\'\'|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^\\'\n])*'|\"(?:\\.|[^\\\"\n])*\""
    r"|\#[^\n]*|`{3,}|.",
    re.DOTALL,
)
"""A string or a comment of Python, a fence, or any other character."""

_FENCE_LINE = re.compile(r"^[ \t]*`{3,}[ \t]*\r?$", re.MULTILINE)

UNREADABLE = "no Python code"

ROOT = "apis"


def block_in(message: str) -> str:
    """Return the first fenced block of Python code of a message; empty if it has none.

    Backticks inside of a string or a comment of the code do not end the block. A block that is not
    closed ends with the message, as in AppWorld's own agents.
    """
    position = 0
    while opening := _OPENING.search(message, position):
        rest = message[opening.end() :]
        if re.fullmatch(_PYTHON, opening[2], re.IGNORECASE):
            return rest[: _end_of_code(rest, len(opening[1]))].strip()
        closing = _FENCE_LINE.search(rest)
        position = opening.end() + (closing.end() if closing else len(rest))
    return ""


def _end_of_code(text: str, ticks: int) -> int:
    """Return where the fence of so many backticks that closes Python code begins."""
    for token in _TOKEN.finditer(text):
        if token[0].startswith("```") and len(token[0]) >= ticks:
            return token.start()
    closing = _FENCE_LINE.search(text)
    return closing.start() if closing else len(text)


def fenced(code: str) -> str:
    """Return the message that consists of a block."""
    return f"```python\n{code.strip()}\n```"


def apis_in(code: str) -> tuple[str, ...]:
    """Return the APIs that a block names, as ``app.api``, in the order of its text.

    Raises ValueError if it is no Python code.
    """
    with boundary(ValueError, UNREADABLE):
        tree = ast.parse(code[:MAX_CHARS], CODE)
        found = sorted(_named(tree))
    return tuple(name for _, _, name in found)


def _named(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id=root), attr=app), attr=api
            ) if root == ROOT:
                yield node.end_lineno or 0, node.end_col_offset or 0, f"{app}.{api}"
            case _:
                pass

"""Blocks of code as text: those in a policy's message, and the APIs that a block names."""

import ast
import re
from collections.abc import Iterator

from coevolve.foreign import CODE, boundary

MAX_CHARS = 20_000
"""Maximum characters of a block that is read for patterns, and that is executed."""

FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)

UNREADABLE = "no Python code"

ROOT = "apis"


def block_in(message: str) -> str:
    """Return the first fenced block of code of a message; empty if it has none.

    A block that is not closed ends with the message, as in AppWorld's own agents.
    """
    found = FENCED.search(message)
    return found[1].strip() if found else ""


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

"""Writes the call expressions of the simulators, and names what is wrong with a model's calls."""

import keyword
import re
from collections.abc import Mapping, Sequence

from coevolve.base.foreign import shown
from coevolve.environments.tools.calls import MAX_CHARS

_TOOL_NAME = re.compile(r"[A-Za-z_][\w.]*\Z")


class MalformedCallsError(ValueError):
    """A message begins a call that cannot be read; the sentence may be shown to the policy."""


def call_text(name: str, arguments: Mapping[str, object]) -> str:
    """Return the call expression. Raises ValueError if a name is not valid in it."""
    if not _TOOL_NAME.match(name):
        raise ValueError(f"a call needs the name of a tool, found {shown(name)}")
    for argument in arguments:
        if not argument.isidentifier() or keyword.iskeyword(argument):
            raise ValueError(f"a call of {name} needs names of arguments, found {shown(argument)}")
    written = ", ".join(f"{argument}={value!r}" for argument, value in arguments.items())
    return f"{name}({written})"


def python_list(calls: Sequence[str]) -> str:
    """Return calls in the form ``python``."""
    return f"[{', '.join(calls)}]"


def check_length(chars: int) -> None:
    """Raise MalformedCallsError if calls have more than `MAX_CHARS` characters."""
    if chars > MAX_CHARS:
        raise MalformedCallsError(f"calls have at most {MAX_CHARS} characters, found {chars}")

"""The calls of a walk, and where their arguments were taken from."""

from collections.abc import Sequence
from dataclasses import dataclass

from coevolve.environments.tools.commands import Observed

LOOKING = 0
"""The errand of calls that were made for the explorer to see something; others count from 1."""


@dataclass(frozen=True)
class Argument:
    """A value, and where it was taken from."""

    name: str
    value: str | int
    answered_by: int | None = None
    """The step whose answer it was taken from; None where it was seen before, or made up."""


@dataclass(frozen=True)
class Step:
    """One call of a walk."""

    errand: int
    tool: str
    arguments: tuple[Argument, ...]
    observed: Observed

    @property
    def text(self) -> str:
        """The call, as a Python expression."""
        return written_call(self.tool, self.arguments)


def written_call(tool: str, arguments: Sequence[Argument]) -> str:
    """Return a call as a Python expression."""
    return f"{tool}({', '.join(f'{each.name}={each.value!r}' for each in arguments)})"

"""What the cheap adversary tries, and when it counts as solving a task."""

from collections.abc import Sequence
from typing import NamedTuple

Turns = tuple[tuple[str, ...], ...]
"""Calls by turn."""

SHOWN_CHARS = 60


class Attempt(NamedTuple):
    """One attempt: calls, and the words of the last message."""

    turns: Turns
    words: str = ""


class Probe(NamedTuple):
    """Attempts that no right grade accepts, all of them at once.

    Where one attempt may be right by chance, such as a guess, there are several.
    """

    kind: str
    attempts: Sequence[Attempt]
    unless: Attempt | None = None
    """An attempt that must not pass, too, for the others to count."""

    tool: str = ""
    """The tool of which an argument is another one; empty if the attempts are of another kind."""

    @property
    def every(self) -> Sequence[Attempt]:
        """All attempts that decide."""
        return [*self.attempts, *([] if self.unless is None else [self.unless])]

    @property
    def shown(self) -> str:
        """The kind, and the words or the call of the first attempt."""
        turns, words = self.attempts[0]
        made = (call for calls in turns for call in calls if call.startswith(self.tool))
        said = next(made, "") or words
        more = f" and {len(self.attempts) - 1} more" if len(self.attempts) > 1 else ""
        return f"{self.kind} ({said!r:.{SHOWN_CHARS}}{more})" if said.strip() else self.kind

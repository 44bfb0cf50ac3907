"""What the cheap adversary tries, and when it counts as solving a task."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Turns = tuple[tuple[str, ...], ...]
"""Calls by turn."""

SHOWN_CHARS = 90


class Attempt(NamedTuple):
    """One attempt: calls, and the words of the last message."""

    turns: Turns
    words: str = ""

    @property
    def calls(self) -> tuple[str, ...]:
        """All its calls."""
        return tuple(call for calls in self.turns for call in calls)

    @property
    def size(self) -> tuple[int, int]:
        """Number of its calls, and of its characters; the plainest attempt has the least."""
        return len(self.calls), len(self.words) + sum(map(len, self.calls))


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
        """The kind, and the words or the calls of the first attempt."""
        first = self.attempts[0]
        calls = (
            call for call in first.calls if call.partition("(")[0] == self.tool or not self.tool
        )
        said = ", ".join(list(calls)[: 1 if self.tool else None]) or first.words
        more = f" and {len(self.attempts) - 1} more" if len(self.attempts) > 1 else ""
        return f"{self.kind} ({said!r:.{SHOWN_CHARS}}{more})" if said.strip() else self.kind


def plainest(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the attempts, those with the fewest calls and characters first."""
    return sorted(attempts, key=lambda each: each.size)


class Grading(NamedTuple):
    """How the tools of a set of tasks grade."""

    rewards: bool
    """Whether by a reward of their own; otherwise by comparison with the reference."""

    judges_words: bool
    certain: bool
    """Whether equal attempts get equal rewards."""

    is_own: bool
    """Whether the user can correct it. A benchmark's verdict is what it is, so what it overlooks in
    single arguments is not looked for."""

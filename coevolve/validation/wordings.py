"""Wordings of requests, and the tasks that use one and the same wording for different work.

A wording is an instruction without its values. Two tasks *conflict* if they share a wording and
mean different work by it: then one of them is wrong, or the wording does not say what to do. The
trusted tasks, those that came with the run, decide where they use it.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Wording(NamedTuple):
    """An instruction without its values, and what the reference does for it."""

    text: str
    meaning: str
    """For example the tools that are called, in order."""

    turn: int
    """The turn that is worded so, from 0."""


class Conflict(NamedTuple):
    """Another meaning of a wording."""

    wording: Wording
    other: str
    """The meaning that most other tasks give to it."""

    tasks: int
    """Number of these tasks."""

    trusted: bool
    """Whether they are trusted."""

    @property
    def found(self) -> str:
        """The conflict in words."""
        return (
            f"the wording {self.wording.text!r} stands for {self.wording.meaning} here, and for "
            f"{self.other} in {self._tasks}"
        )

    @property
    def why(self) -> str:
        """The conflict as a sentence without contents."""
        return f"Its wording stands for other work in {self._tasks}."

    @property
    def _tasks(self) -> str:
        whose = "of the run's own tasks" if self.trusted else "of the made tasks"
        return f"{self.tasks} {whose}"


class WordingBook:
    """The wordings of tasks by key."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Wording, ...]] = {}
        self._trusted: set[str] = set()
        self._users: dict[str, dict[str, set[str]]] = {}
        """Text -> meaning -> keys."""

    def add(self, key: str, wordings: Sequence[Wording], *, trusted: bool) -> None:
        """Add a task under ``key``; it replaces the task that has this key."""
        self.discard(key)
        self._of[key] = tuple(wordings)
        if trusted:
            self._trusted.add(key)
        for text, meaning, _ in wordings:
            self._users.setdefault(text, {}).setdefault(meaning, set()).add(key)

    def of(self, key: str) -> Sequence[Wording]:
        """Return the wordings of a task; none for an unknown key."""
        return self._of.get(key, ())

    def discard(self, key: str) -> None:
        """Remove a task; an unknown key is no error."""
        self._trusted.discard(key)
        for text, meaning in {each[:2] for each in self._of.pop(key, ())}:
            users = self._users[text]
            users[meaning].discard(key)
            if not users[meaning]:
                del users[meaning]
            if not users:
                del self._users[text]

    def conflict(self, wordings: Sequence[Wording]) -> Conflict | None:
        """Return a conflict with other tasks, one with trusted tasks if there is any; else None.

        A wording that some trusted task uses with the same meaning is right, whatever others mean.
        """
        found = [each for each in map(self._conflict, wordings) if each]
        return max(found, key=lambda each: each.trusted, default=None)

    def _conflict(self, wording: Wording) -> Conflict | None:
        users = self._users.get(wording.text, {})
        trusted = {meaning: keys & self._trusted for meaning, keys in users.items()}
        if trusted.get(wording.meaning):
            return None
        by_trusted = any(trusted.values())
        others = {
            meaning: len(keys)
            for meaning, keys in (trusted if by_trusted else users).items()
            if keys and meaning != wording.meaning
        }
        if not others:
            return None
        other = max(others, key=lambda meaning: (others[meaning], meaning))
        return Conflict(wording, other, others[other], by_trusted)

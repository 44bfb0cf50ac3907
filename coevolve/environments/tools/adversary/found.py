"""What the cheap adversary finds: what solves a task, and what a user should look at."""

from collections.abc import Mapping, Sequence

import msgspec

HALF = 0.5
"""An attempt that does nothing should earn less."""


class Doubt(msgspec.Struct, frozen=True):
    """What may be right or wrong, as only the author of the tasks can tell."""

    what: str
    """A sentence about the tasks, without its subject and its end."""

    places: tuple[int, ...]
    """The tasks' places in the set."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the adversary found on a set of tasks."""

    solved: dict[int, str]
    """Place of a task -> what solves it without doing what it asks."""

    doubts: tuple[Doubt, ...] = ()

    idle_reward: float = 0.0
    """The highest reward below 1 of an attempt without a tool's call and without an answer."""

    def named(self, names: Sequence[str]) -> "Named":
        """Return the same with the tasks' names."""
        return Named(
            solved={names[place]: how for place, how in self.solved.items()},
            doubts={
                doubt.what: tuple(names[place] for place in doubt.places) for doubt in self.doubts
            },
            idle_reward=self.idle_reward,
        )


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What the adversary found, by the tasks' ids."""

    solved: Mapping[str, str]
    """Task -> what solves it."""

    doubts: Mapping[str, Sequence[str]]
    """Doubt -> the tasks."""

    idle_reward: float

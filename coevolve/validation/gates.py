"""What an environment tells the validator: whether a candidate is sound, and what it is like."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from protocols.evolution import Candidate, EnvironmentRecord, Refused


@dataclass(frozen=True, kw_only=True)
class Sound:
    """The candidate passed every gate that concerns it alone."""

    body: msgspec.Raw
    """Of the task that it becomes."""

    skills: tuple[str, ...]
    """Of that task."""

    records: tuple[EnvironmentRecord, ...] = ()
    """What the environment has to remember where the task is admitted."""

    tried: tuple[int, int] | None = None
    """(successes, rollouts) of the policy on the task, if the environment knows them without
    asking the policy; else the policy is probed."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the gates say of a candidate."""

    outcome: Sound | Refused
    simulator_calls: int


class Gates(Protocol):
    """Asks every gate that concerns a candidate alone."""

    async def examine(self, candidate: Candidate) -> Findings:
        """Ask gate after gate until one refuses.

        Raises SimulatorError where a machine failed; nothing is then known of the candidate.
        """
        ...


class Match(NamedTuple):
    """The task that is most alike."""

    key: str
    degree: float
    """0 to 1."""


class TaskIndex(Protocol):
    """Tasks by what they are alike in."""

    def add(self, key: str, body: msgspec.Raw) -> None:
        """Remember a task under ``key``, in place of the one that was there."""
        ...

    def discard(self, key: str) -> None:
        """Forget a task; unknown ones are no error."""
        ...

    def nearest(self, body: msgspec.Raw) -> Match | None:
        """Return the task that is most alike; None where none is too much so."""
        ...

"""The validator's view of an environment: its gates and its index of similar tasks."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from protocols.evolution import NO_READING, Candidate, EnvironmentRecord, Reading, Refused


@dataclass(frozen=True, kw_only=True)
class Sound:
    """The candidate passed every gate of its own."""

    body: msgspec.Raw
    """Body of the future task."""

    skills: tuple[str, ...]
    """Skills of the future task."""

    records: tuple[EnvironmentRecord, ...] = ()
    """Records that the environment needs if the task is admitted."""

    tried: tuple[int, int] | None = None
    """(successes, rollouts) of the policy on the task, if the environment already knows them.
    Otherwise the policy is probed."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The gates' result for a candidate."""

    outcome: Sound | Refused
    simulator_calls: int
    reading: Reading = NO_READING


class Gates(Protocol):
    """Runs every gate that looks at one candidate alone."""

    async def examine(self, candidate: Candidate) -> Findings:
        """Run the executed gates in order until one refuses.

        Raises SimulatorError if a simulator failed; the candidate is then neither valid nor
        refused.
        """
        ...

    async def read(self, candidate: Candidate, findings: Findings) -> Findings:
        """Return the findings on a sound candidate, with what a reader of its instructions adds.

        Raises SimulatorError, and EndpointError if the reader gives no answer now.
        """
        ...


class Match(NamedTuple):
    """The most similar task."""

    key: str
    degree: float
    """Similarity, 0 to 1."""


class TaskIndex(Protocol):
    """Finds similar tasks."""

    def add(self, key: str, body: msgspec.Raw) -> None:
        """Store a task under ``key``, replacing an earlier one."""
        ...

    def discard(self, key: str) -> None:
        """Remove a task; ignores unknown keys."""
        ...

    def nearest(self, body: msgspec.Raw) -> Match | None:
        """Return the most similar task; None if no task is too similar."""
        ...

    def overlapping(self, body: msgspec.Raw) -> Match | None:
        """Return a task of which the body has every request, or the other way round; else None."""
        ...


class NoIndex:
    """A `TaskIndex` that stays empty."""

    def add(self, key: str, body: msgspec.Raw) -> None:
        """Do nothing."""

    def discard(self, key: str) -> None:
        """Do nothing."""

    def nearest(self, body: msgspec.Raw) -> Match | None:
        """Return that no task is similar."""

    def overlapping(self, body: msgspec.Raw) -> Match | None:
        """Return that no task overlaps."""

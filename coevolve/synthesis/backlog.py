"""The signals that wait for the synthesizer, and their order.

Kinds take turns, so that a frequent kind does not crowd out the others. Within a kind, the highest
score is first; among equal scores, the newest. Signals with failed attempts come after all others.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from coevolve.parts.attempts import WorkItem
from protocols.evolution import Signal, SignalKind


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A signal that was taken and is not in work."""

    item: WorkItem
    signal: Signal

    failures: int = 0
    """Attempts at it that failed in this process, whatever their cause."""

    @property
    def sequence(self) -> int:
        """Sequence of the record that is finished with it."""
        return self.item.sequence

    def __lt__(self, other: "Waiting") -> bool:
        """Whether this signal is worked on before ``other``, of the same kind."""
        return self.rank > other.rank

    @property
    def rank(self) -> tuple[int, float, int]:
        """Its place among the signals of its kind; the greatest is worked on first."""
        return (-self.failures, self.signal.score, self.sequence)


class Backlog:
    """Signals by kind, with the order of turns."""

    def __init__(self) -> None:
        self._turns: deque[SignalKind] = deque(get_args(SignalKind))
        self._waiting: dict[SignalKind, list[Waiting]] = {kind: [] for kind in self._turns}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, waiting: Waiting) -> None:
        heapq.heappush(self._waiting[waiting.signal.kind], waiting)

    def first(self) -> Waiting:
        """Return the next signal. Raises LookupError if none waits."""
        return self._waiting[self._next_kind()][0]

    def take_next(self) -> Waiting:
        """Remove and return the next signal. Raises LookupError if none waits."""
        kind = self._next_kind()
        self._turns.remove(kind)
        self._turns.append(kind)
        return heapq.heappop(self._waiting[kind])

    def _next_kind(self) -> SignalKind:
        for kind in self._turns:
            if self._waiting[kind]:
                return kind
        raise LookupError("no signal waits")

    def take_excess(self, most: int) -> list[Waiting]:
        """Remove and return those of the oldest policy versions, until ``most`` are left.

        Of one version those go first that would be worked on last.
        """
        if len(self) <= most:
            return []
        waiting = [each for of_kind in self._waiting.values() for each in of_kind]
        waiting.sort(key=lambda each: (each.signal.policy_version, each.rank))
        excess = waiting[: len(waiting) - most]
        self._remove(excess)
        return excess

    def take_expired(self, version: int, expire_versions: int) -> list[Waiting]:
        """Remove and return the signals that have expired at policy ``version``."""
        expired = [
            each
            for waiting in self._waiting.values()
            for each in waiting
            if version - each.signal.policy_version >= expire_versions
        ]
        self._remove(expired)
        return expired

    def _remove(self, gone: Sequence[Waiting]) -> None:
        sequences = {each.sequence for each in gone}
        for waiting in self._waiting.values() if sequences else ():
            waiting[:] = [each for each in waiting if each.sequence not in sequences]
            heapq.heapify(waiting)

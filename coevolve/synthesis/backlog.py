"""The signals that wait for the synthesizer, and their order.

Kinds take turns, so that a frequent kind does not crowd out the others. Within a kind, the highest
score is first; among equal scores, the newest. Signals with failed attempts come after all others.
"""

import heapq
from collections import deque
from dataclasses import dataclass
from typing import get_args

from coevolve.parts.units import Unit
from protocols.evolution import Signal, SignalKind


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A signal that was taken and is not in work."""

    unit: Unit
    signal: Signal

    failures: int = 0
    """Attempts at it that failed in this process, whatever their cause."""

    @property
    def sequence(self) -> int:
        """Sequence of the record that is finished with it."""
        return self.unit.sequence

    def __lt__(self, other: "Waiting") -> bool:
        """Whether this signal is worked on before ``other``, of the same kind."""
        return self._rank > other._rank

    @property
    def _rank(self) -> tuple[int, float, int]:
        return (-self.failures, self.signal.score, self.sequence)


class Backlog:
    """Signals by kind, with the order of turns."""

    def __init__(self) -> None:
        self._turns: deque[SignalKind] = deque(get_args(SignalKind))
        self._waiting: dict[SignalKind, list[Waiting]] = {kind: [] for kind in self._turns}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, waiting: Waiting) -> None:
        """Add a signal."""
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

    def take_expired(self, version: int, expire_versions: int) -> list[Waiting]:
        """Remove and return the signals that have expired at policy ``version``."""
        expired: list[Waiting] = []
        for kind, waiting in self._waiting.items():
            late = [w for w in waiting if version - w.signal.policy_version >= expire_versions]
            if late:
                expired.extend(late)
                self._waiting[kind] = [w for w in waiting if w not in late]
                heapq.heapify(self._waiting[kind])
        return expired

"""States of parts, made of the pieces that a snapshot holds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coevolve.signals.detector import Detector
from protocols.evolution import GroupSummary, Signal
from protocols.journal import Message


class State(NamedTuple):
    """A `coevolve.journal.snapshots.Folded` of any pieces."""

    pieces: Sequence[Any]

    def fold(self, message: Message) -> None:
        """Add a record to each piece."""
        for piece in self.pieces:
            if not isinstance(piece, Detector):
                piece.fold(message)
            elif isinstance(message, GroupSummary | Signal):
                piece.recall(message)

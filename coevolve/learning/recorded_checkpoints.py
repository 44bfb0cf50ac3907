"""Which checkpoints of a run exist, and which of them a new one replaces.

`coevolve.learning.checkpoints` says which ones stay, and why.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from coevolve.journal.codec import VERSIONS_BY_NUMBER, topics_of
from coevolve.journal.snapshots import Snapshots
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import Checkpoint, StepReport

TOPICS = topics_of(Checkpoint, StepReport)
"""Topics of the fold `RecordedCheckpoints`."""


class CheckpointsState(msgspec.Struct):
    """What `RecordedCheckpoints` remembers, with the same names."""

    existing: dict[int, Checkpoint]
    devices: int
    handovers: set[int]


class RecordedCheckpoints:
    """Folds the journal into the checkpoints that exist; a `coevolve.journal.snapshots.Piece`."""

    kind = CheckpointsState
    settings = None

    def __init__(self) -> None:
        self._existing: dict[int, Checkpoint] = {}
        self._devices = 0
        """Number of processes that took the newest step; 0 before the first."""

        self._handovers: set[int] = set()
        """Steps after which another number of processes took over."""

    @property
    def pieces(self) -> Sequence[object]:
        """Return itself: it is a whole state."""
        return (self,)

    @property
    def keeps(self) -> list[tuple[str, str]]:
        return [(VERSIONS_BY_NUMBER, str(step)) for step in self._existing]

    def dump(self) -> CheckpointsState:
        """Return what it remembers."""
        return CheckpointsState(self._existing, self._devices, self._handovers)

    def load(self, state: CheckpointsState) -> None:
        """Take up what another one remembered."""
        self._existing, self._devices = state.existing, state.devices
        self._handovers = state.handovers

    @property
    def existing(self) -> Mapping[int, Checkpoint]:
        """Return the checkpoints that were written and not replaced, by step."""
        return self._existing

    def fold(self, message: Message) -> None:
        """Add the journal's next record; ignores other message types."""
        match message:
            case Checkpoint(step=step, replaces=replaces):
                for each in replaces:
                    self._existing.pop(each, None)
                self._existing[step] = message
            case StepReport(step=step, devices=devices):
                if self._devices not in (0, devices):
                    self._handovers.add(step - 1)
                self._devices = devices
            case _:
                pass

    def replaced(
        self, step: int, *, kept: bool, keep: int, needed: Collection[int]
    ) -> tuple[int, ...]:
        """Return the steps whose checkpoints a new one replaces, in order.

        ``kept`` is the new one's kind. ``keep`` of that kind stay, and those of ``needed`` steps.
        """
        older = sorted(each for each in self._existing if each != step)
        of_kind = [each for each in older if self._existing[each].kept]
        counted = of_kind[max(0, len(of_kind) + kept - keep) :]
        stay = {*counted, *(each for each in of_kind if each in needed), *self._handovers}
        return tuple(each for each in older if each not in stay)


def checkpoint_snapshots(reader: Reader) -> Snapshots[RecordedCheckpoints]:
    """Return the snapshots of `RecordedCheckpoints`."""
    return Snapshots(reader, "learner's checkpoints", TOPICS, RecordedCheckpoints)


async def recorded_checkpoints(reader: Reader) -> RecordedCheckpoints:
    """Return the checkpoints that exist now."""
    found, _ = await checkpoint_snapshots(reader).folded()
    return found

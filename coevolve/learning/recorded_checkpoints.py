"""Which checkpoints of a run exist, and which of them a new one replaces.

`coevolve.learning.checkpoints` says which ones stay, and why.
"""

from collections.abc import Collection

import msgspec

from coevolve.journal.codec import VERSIONS_BY_NUMBER, topics_of
from coevolve.journal.snapshots import Snapshots, WholeState
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import Checkpoint, StepReport

TOPICS = topics_of(Checkpoint, StepReport)
"""Topics of the fold `RecordedCheckpoints`."""


class RecordedCheckpoints(WholeState):
    """Folds the journal into the checkpoints that exist; a `coevolve.journal.snapshots.Piece`."""

    existing: dict[int, Checkpoint] = msgspec.field(default_factory=dict[int, Checkpoint])
    """The checkpoints that were written and not replaced, by step."""

    devices: int = 0
    """Number of processes that took the newest step; 0 before the first."""

    handovers: set[int] = msgspec.field(default_factory=set[int])
    """Steps after which another number of processes took over."""

    @property
    def keeps(self) -> list[tuple[str, str]]:
        return [(VERSIONS_BY_NUMBER, str(step)) for step in self.existing]

    def fold(self, message: Message) -> None:
        """Add the journal's next record; ignores other message types."""
        match message:
            case Checkpoint(step=step, replaces=replaces):
                for each in replaces:
                    self.existing.pop(each, None)
                self.existing[step] = message
            case StepReport(step=step, devices=devices):
                if self.devices not in (0, devices):
                    self.handovers.add(step - 1)
                self.devices = devices
            case _:
                pass

    def replaced(
        self, step: int, *, kept: bool, keep: int, needed: Collection[int]
    ) -> tuple[int, ...]:
        """Return the steps whose checkpoints a new one replaces, in order.

        ``kept`` is the new one's kind. ``keep`` of that kind stay, and those of ``needed`` steps.
        """
        older = sorted(each for each in self.existing if each != step)
        of_kind = [each for each in older if self.existing[each].kept]
        counted = of_kind[max(0, len(of_kind) + kept - keep) :]
        stay = {*counted, *(each for each in of_kind if each in needed), *self.handovers}
        return tuple(each for each in older if each not in stay)


def checkpoint_snapshots(reader: Reader) -> Snapshots[RecordedCheckpoints]:
    return Snapshots(reader, "learner's checkpoints", TOPICS, RecordedCheckpoints)


async def recorded_checkpoints(reader: Reader) -> RecordedCheckpoints:
    """Return the checkpoints that exist now."""
    found, _ = await checkpoint_snapshots(reader).folded()
    return found

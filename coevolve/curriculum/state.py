"""The curriculum's state, a fold of the journal, and its snapshots."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from coevolve.curriculum import schedule
from coevolve.curriculum.schedule import Schedule
from coevolve.curriculum.task_sampler import TaskSampler
from coevolve.journal.snapshots import Snapshots
from protocols.config import RunConfig
from protocols.interfaces import Reader
from protocols.journal import Message


class CurriculumState(NamedTuple):
    """A state of the curriculum; see `coevolve.journal.snapshots.Folded`."""

    schedule: Schedule
    sampler: TaskSampler

    @property
    def pieces(self) -> Sequence[object]:
        return self

    def fold(self, message: Message) -> None:
        self.schedule.fold(message)
        self.sampler.fold(message)


def curriculum_snapshots(
    reader: Reader, config: RunConfig, open_sampler: Callable[[], TaskSampler]
) -> Snapshots[CurriculumState]:
    """Return the snapshots; ``open_sampler`` returns a new sampler without any record."""
    topics = {*schedule.TOPICS, *open_sampler().topics}
    if config.cycle_steps:
        topics.update(schedule.CYCLE_TOPICS)

    def new() -> CurriculumState:
        return CurriculumState(Schedule.of(config), open_sampler())

    return Snapshots(reader, "curriculum", sorted(topics), new)

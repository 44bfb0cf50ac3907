"""Samplers, which choose the task of each group.

A sampler is folded from the journal like the rest of the curriculum's state, so the same journal
gives the same next task in every process. One that is also a `coevolve.journal.snapshots.Piece`, or
has one as ``piece``, lets the curriculum start from a snapshot; with any other one it starts from
all records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec
import numpy as np

from coevolve.curriculum.task_pool import TOPICS, Pool
from protocols.config import RunConfig
from protocols.interfaces import TaskSource
from protocols.journal import Message
from protocols.rollouts import Writer

_DRAW_STREAM = 101


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The task of a group."""

    task_id: str
    news: Sequence[Message] = ()
    """The task itself, if the journal does not have it yet."""

    writer: Writer = "policy"

    imitable: bool = True
    """Whether the learner may imitate the task's reference, if it has one."""


class TaskSampler(Protocol):
    """Chooses a task for each group, in the order of requests."""

    topics: tuple[str, ...]
    """Topics of the sampler's fold."""

    def opening(self) -> Sequence[Message]:
        """Return the tasks to write at the start of the journal."""
        ...

    def fold(self, message: Message) -> None:
        """Add the journal's next record; ignores other message types.

        A task and a group's request may be added twice: when they are decided, and from the
        journal.
        """
        ...

    def join(self) -> None:
        """Make tasks drawable that were made in the cycle that is over."""
        ...

    def task(self, number: int) -> Draw:
        """Return the task of group ``number``."""
        ...


@runtime_checkable
class Pooled(Protocol):
    """A sampler with a pool."""

    pool: Pool


class Nothing(msgspec.Struct):
    """The state of a sampler that remembers nothing."""


class SourceSampler:
    """Uses a source's own draws."""

    settings = None
    keeps = ()

    def __init__(self, source: TaskSource) -> None:
        self._source = source
        self.state = Nothing()
        self.topics: tuple[str, ...] = ()

    def opening(self) -> Sequence[Message]:
        return self._source.pool()

    def fold(self, message: Message) -> None:
        """Ignore every record."""

    def join(self) -> None:
        """Do nothing: no tasks are made."""

    def task(self, number: int) -> Draw:
        task, is_new = self._source.draw(number)
        return Draw(task_id=task.task_id, news=(task,) if is_new else ())


class PoolSampler:
    """Draws from a pool of a source's seed tasks and synthesized tasks, by weight."""

    def __init__(self, config: RunConfig, source: TaskSource) -> None:
        self._seed = config.seed
        self._source = source
        self.pool = Pool(config)
        """The seed tasks and the synthesized ones."""

        self.topics: tuple[str, ...] = TOPICS

    def opening(self) -> Sequence[Message]:
        return self._source.pool()

    def fold(self, message: Message) -> None:
        self.pool.fold(message)

    @property
    def piece(self) -> Pool:
        """Return what it remembers."""
        return self.pool

    def join(self) -> None:
        """Add the waiting tasks to the pool."""
        self.pool.join()

    def task(self, number: int) -> Draw:
        """Return a draw from the pool; it depends only on the seed, the number and the pool."""
        generator = np.random.default_rng((self._seed, _DRAW_STREAM, number))
        task_id = self.pool.draw(generator)
        return Draw(task_id=task_id, imitable=self.pool.task(task_id).is_confirmed)


def sampler_of(config: RunConfig, source: TaskSource) -> TaskSampler:
    """Return a new sampler for the run's arm."""
    return PoolSampler(config, source) if config.synthesizes else SourceSampler(source)

"""Where the curriculum takes the task of each group from.

A sampler is folded from the journal like the rest of the curriculum's state, so the same journal
gives the same next task, whoever asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from coevolve.curriculum.task_pool import TOPICS, Pool
from protocols.config import RunConfig
from protocols.interfaces import TaskSource
from protocols.journal import Message
from protocols.rollouts import Writer

_DRAW_STREAM = 101


@dataclass(frozen=True, kw_only=True)
class Draw:
    """What a group is to attempt."""

    task_id: str
    news: Sequence[Message] = ()
    """The task, where it is new to the journal."""

    writer: Writer = "policy"


class TaskSampler(Protocol):
    """Tasks for groups, in the order in which they are asked for."""

    topics: tuple[str, ...]
    """What it is folded from."""

    def opening(self) -> Sequence[Message]:
        """Return the tasks that the journal begins with."""
        ...

    def fold(self, message: Message) -> None:
        """Take in the journal's next record; kinds that say nothing are passed over.

        A task, and a group's request, may come twice: when it is decided, and from the journal.
        """
        ...

    def join(self) -> None:
        """Let what was made in the cycle that is over be drawn from now on."""
        ...

    def task(self, number: int) -> Draw:
        """Return the task of the group ``number``."""
        ...


class SourceSampler:
    """The tasks of a source, as it draws them."""

    def __init__(self, source: TaskSource) -> None:
        self._source = source
        self.topics: tuple[str, ...] = ()

    def opening(self) -> Sequence[Message]:
        """Return the source's pool."""
        return self._source.pool()

    def fold(self, message: Message) -> None:
        """Pass every record over."""

    def join(self) -> None:
        """Do nothing: no task is made."""

    def task(self, number: int) -> Draw:
        """Return the source's draw."""
        task, is_new = self._source.draw(number)
        return Draw(task_id=task.task_id, news=(task,) if is_new else ())


class PoolSampler:
    """The seed tasks of a source and the tasks that the loop makes, by weight."""

    def __init__(self, config: RunConfig, source: TaskSource) -> None:
        self._seed = config.seed
        self._source = source
        self._pool = Pool(config)
        self.topics: tuple[str, ...] = TOPICS

    def opening(self) -> Sequence[Message]:
        """Return the seed tasks."""
        return self._source.pool()

    def fold(self, message: Message) -> None:
        """Take it into the pool."""
        self._pool.fold(message)

    def join(self) -> None:
        """Let waiting tasks join the pool."""
        self._pool.join()

    def task(self, number: int) -> Draw:
        """Return a draw from the pool, a function of the seed, the number and the pool."""
        generator = np.random.default_rng((self._seed, _DRAW_STREAM, number))
        return Draw(task_id=self._pool.draw(generator))


def sampler_of(config: RunConfig, source: TaskSource) -> TaskSampler:
    """Return the sampler of a run's arm; nothing is folded into it yet."""
    return PoolSampler(config, source) if config.synthesizes else SourceSampler(source)

"""Given tasks on both sides of the split: trained on, explored from, watched, or scored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coevolve.environments.tools.synthesis.brief import Start, start_of
from coevolve.environments.tools.watched_tasks import apart
from protocols.config import RunConfig
from protocols.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The random streams of a source; each draws independently of the others."""

    pool: int
    choice: int
    start: int


class SplitTasks:
    """A `coevolve.environments.tools.interfaces.ToolSource` with a fixed pool of training tasks."""

    def __init__(
        self,
        config: RunConfig,
        train: Sequence[Task],
        held_out: Sequence[Task],
        *,
        seeds: int,
        streams: Streams,
    ) -> None:
        """Watch the first tasks of ``train``, and draw at most ``seeds`` others for the pool."""
        self._seed = config.seed
        self._streams = streams
        self._canaries, self._train = apart(config, train, streams.pool)
        self._pool = self._train[:seeds]
        self._held_out = tuple(held_out)

    def pool(self) -> Sequence[Task]:
        """Return the configured number of training tasks, drawn by the run's seed."""
        return self._pool

    def draw(self, number: int) -> tuple[Task, bool]:
        rng = np.random.default_rng((self._seed, self._streams.choice, number))
        return self._pool[int(rng.integers(len(self._pool)))], False

    def held_out(self) -> Sequence[Task]:
        return self._held_out

    def canaries(self, count: int) -> Sequence[Task]:
        """Return training tasks that no run has in its pool, the same for every seed of a run."""
        return self._canaries[:count]

    def start(self, number: int) -> Start:
        """Return the world of a training task, in the pool or not."""
        rng = np.random.default_rng((self._seed, self._streams.start, number))
        return start_of(self._train[int(rng.integers(len(self._train)))])

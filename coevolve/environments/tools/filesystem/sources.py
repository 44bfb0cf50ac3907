"""The two task sources of the quickstart: a fixed pool, and new tasks for every group."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from coevolve.environments.tools.filesystem.grammar import (
    canary_tasks,
    exploration_start,
    held_out_tasks,
    static_pool,
    uniform_task,
)
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from coevolve.environments.tools.synthesis.brief import Start
from protocols.tasks import Task

_CHOICE_STREAM = 3

# Drawing and executing hundreds of tasks takes a second, and a process needs them more than once.
_pool_of = lru_cache(maxsize=4)(static_pool)
_canaries_of = lru_cache(maxsize=4)(canary_tasks)


class StaticSource:
    """A `protocols.interfaces.TaskSource`: a fixed pool, imbalanced like the warm start."""

    def __init__(self, seed: int, settings: FilesystemConfig) -> None:
        self._seed = seed
        self._settings = settings
        self._pool = _pool_of(seed, settings.seeds, settings.held_out)

    def pool(self) -> Sequence[Task]:
        return self._pool

    def draw(self, number: int) -> tuple[Task, bool]:
        rng = np.random.default_rng((self._seed, _CHOICE_STREAM, number))
        return self._pool[int(rng.integers(len(self._pool)))], False

    def held_out(self) -> Sequence[Task]:
        return held_out_tasks(self._settings.held_out)

    def canaries(self, count: int) -> Sequence[Task]:
        return _canaries_of(count)

    def start(self, number: int) -> Start:
        """Return a new world of the training split."""
        return exploration_start(self._seed, number)


class UniformSource:
    """A `protocols.interfaces.TaskSource`: a new task per group, all skills equally likely."""

    def __init__(self, seed: int, settings: FilesystemConfig) -> None:
        self._seed = seed
        self._settings = settings

    def pool(self) -> Sequence[Task]:
        """Return no tasks: every group gets a new one."""
        return ()

    def draw(self, number: int) -> tuple[Task, bool]:
        return uniform_task(self._seed, number, self._settings.held_out), True

    def held_out(self) -> Sequence[Task]:
        return held_out_tasks(self._settings.held_out)

    def canaries(self, count: int) -> Sequence[Task]:
        return _canaries_of(count)

    def start(self, number: int) -> Start:
        return exploration_start(self._seed, number)

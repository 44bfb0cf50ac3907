"""The environment ``filesystem``: the tasks of the quickstart, drawn by a grammar."""

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np

from coevolve.environments.packages import Requirements
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.bfcl.stock import REQUIRES
from coevolve.environments.tools.cells import held_out_pair
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.filesystem.grammar import (
    canary_tasks,
    exploration_start,
    group_of,
    held_out_tasks,
    static_pool,
    uniform_task,
)
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.synthesis.brief import Start
from coevolve.environments.tools.task import ToolTask, tool_task
from protocols.config import RunConfig
from protocols.tasks import Task

_CHOICE_STREAM = 3

# Drawing and executing hundreds of tasks takes a second, and a process needs them more than once.
_pool_of = lru_cache(maxsize=4)(static_pool)
_canaries_of = lru_cache(maxsize=4)(canary_tasks)


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
        """Return a new world of the training split."""
        return exploration_start(self._seed, number)


class StaticSource(UniformSource):
    """The same with a fixed pool, imbalanced like the warm start."""

    def __init__(self, seed: int, settings: FilesystemConfig) -> None:
        super().__init__(seed, settings)
        self._pool = _pool_of(seed, settings.seeds, settings.held_out)

    def pool(self) -> Sequence[Task]:
        """Return the tasks that groups are drawn from."""
        return self._pool

    def draw(self, number: int) -> tuple[Task, bool]:
        rng = np.random.default_rng((self._seed, _CHOICE_STREAM, number))
        return self._pool[int(rng.integers(len(self._pool)))], False


class Filesystem(ToolEnvironment):
    """Tasks in a file system, made by a grammar: the quickstart."""

    config_type: ClassVar[type[msgspec.Struct]] = FilesystemConfig
    name: ClassVar[str] = "filesystem"
    requires: ClassVar[Requirements] = REQUIRES

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, FilesystemConfig)

    def check_chat(self, *, chats: bool) -> None:
        """Accept both the tiny policy and a chat model."""

    def source(self) -> ToolSource:
        """Return new tasks for every group in arm ``uniform``, a fixed pool in other arms."""
        is_uniform = self._config.arm == "uniform"
        return (UniformSource if is_uniform else StaticSource)(self._config.seed, self._settings)

    def tool_sets(self) -> tuple[str, ...]:
        """Return the name of BFCL's file system."""
        return (CLASS,)

    def kinds(self, task: Task) -> tuple[str, ...]:
        """Return the skill group of a task with one turn; else whether training has its pairs."""
        group = group_of(task)
        if group != "multi":
            return (f"skill {group}",)
        return ("pair held out",) if self.held_out_cell(tool_task(task)) else ("pairs trained",)

    def held_out_cell(self, body: ToolTask) -> str:
        """Return a pair of consecutive requests that only held-out tasks may have."""
        return held_out_pair(body)

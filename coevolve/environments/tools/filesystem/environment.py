"""The environment ``filesystem``: the tasks of the quickstart, drawn by a grammar."""

from typing import ClassVar

import msgspec

from coevolve.environments.packages import Requirements
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.bfcl.stock import REQUIRES
from coevolve.environments.tools.cells import held_out_pair
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.filesystem.grammar import group_of
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.filesystem.sources import StaticSource, UniformSource
from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.task import ToolTask, tool_task
from protocols.config import RunConfig
from protocols.tasks import Task


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

"""The environment ``bfcl``: the multi-turn tasks of the Berkeley Function-Calling Leaderboard."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from coevolve.environments.interface import Fault
from coevolve.environments.packages import Requirements
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.bfcl.catalogue import category_of, load_tasks
from coevolve.environments.tools.bfcl.settings import BfclConfig
from coevolve.environments.tools.bfcl.stock import CLASSES, REQUIRES
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.source import FixedSource
from protocols.config import RunConfig
from protocols.tasks import Task


class Bfcl(ToolEnvironment):
    """The multi-turn tasks of the Berkeley function-calling benchmark."""

    config_type: ClassVar[type[msgspec.Struct]] = BfclConfig
    name: ClassVar[str] = "bfcl"
    requires: ClassVar[Requirements] = REQUIRES
    ends_turns: ClassVar[bool] = True

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, BfclConfig)

    def faults(self) -> Sequence[Fault]:
        """Return the rule that arm uniform does not work here, because the tasks are given."""
        return (
            (
                self._config.arm == "uniform",
                "$.arm: uniform draws a fresh task for every group, found environment.use bfcl, "
                "whose tasks are given; choose another arm",
            ),
        )

    def source(self) -> FixedSource:
        """Return the benchmark's tasks, with the results of their references."""
        settings = self._settings
        tasks = load_tasks(
            tuple(dict.fromkeys(settings.categories)),
            split_seed=settings.split_seed,
            held_out_share=settings.held_out_share,
        )
        return FixedSource(self._config, settings, tasks)

    def tool_sets(self) -> tuple[str, ...]:
        """Return the eight simulator classes."""
        return CLASSES

    def kinds(self, task: Task) -> tuple[str, ...]:
        """Return the benchmark's category."""
        return (category_of(task),)

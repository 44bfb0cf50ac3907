"""The environment that is made of a plain class (`coevolve.environments.tools.simple`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import msgspec

from coevolve.dependencies import lacking
from coevolve.environments.foreign import told
from coevolve.environments.interface import Fault
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.references import played_apart
from coevolve.environments.tools.simple import (
    PlainToolSet,
    folder_of,
    judges_answers,
    plain_class,
)
from coevolve.environments.tools.source import FixedSource
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.task_files import read_tasks
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.environments.tools.wire import ToolService
from coevolve.environments.tools.worker import ToolWorker
from protocols.capabilities import NAMES, Capabilities
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.numbers import Count
from protocols.tasks import Task


class OwnConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools of your own, and tasks in a file."""

    tasks: str
    """JSON lines, a parquet file, or a folder that `datasets` saved
    (`coevolve.environments.tools.task_files`). A relative path begins in the folder that the
    command is run in, or else in the folder of the class."""

    seeds: Count = 150
    """Training tasks that the run starts with, at most as many as there are."""

    held_out: Count = 240
    """Tasks of the held-out set, at most as many as there are, the same in every run."""

    split_seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    """Which worlds are held out, or instructions where there are no worlds, of tasks that do not
    say it; runs that are compared need the same."""

    held_out_share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.3
    """Share of the worlds, or instructions, that are held out, of tasks that do not say it."""


class OwnTools(ToolEnvironment):
    """A `coevolve.environments.interface.Environment` of one plain class."""

    config_type: ClassVar[type[msgspec.Struct]] = OwnConfig

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, OwnConfig)
        self._tools = config.uses
        self._class = plain_class(self._tools)
        self._judges_answers = judges_answers(self._class)

    def faults(self) -> Sequence[Fault]:
        """Refuse to make tasks whose answers nobody could give. A class without a world cannot."""
        return (
            (
                self._config.synthesizes and self._judges_answers and self.capabilities.replayable,
                f"$.arm: {self._config.arm} makes tasks of calls, and {self._tools} rewards "
                "answers; choose arm static",
            ),
        )

    def check(self) -> Sequence[str]:
        """Return what tools and tasks lack; refuse tasks that cannot be used."""
        return (*super().check(), *lacking(self._tasks))

    def source(self) -> FixedSource:
        """Return the tasks of the file, their references carried out."""
        tasks = self._tasks()
        # A reference has calls and no answer, so that the class's verdict on it says nothing.
        certain = self.capabilities.deterministic_reward and not self._judges_answers
        played = played_apart(self._worker())
        return FixedSource(self._config, self._settings, tasks, certain=certain, played=played)

    def _tasks(self) -> tuple[Task, ...]:
        tasks = read_tasks(
            self._path(),
            self._tools,
            split_seed=self._settings.split_seed,
            held_out_share=self._settings.held_out_share,
        )
        if not hasattr(self._class, "reward"):
            for task in tasks:
                self._check_reference(task)
        return tasks

    def tool_sets(self) -> tuple[str, ...]:
        """Return the class."""
        return (self._tools,)

    def simulator(self) -> ToolService:
        """Return a child process that can import the class."""
        return ToolService(self._worker())

    def kinds(self, task: Task) -> tuple[str, ...]:
        """Return the tools of a task of one turn, where there are tools."""
        if len(task.skills) != 1 or not tool_documents(self._tools):
            return ()
        return tuple(f"skill {skill}" for skill in task.skills)

    def _worker(self) -> ToolWorker:
        folders = (folder_of(self._class),)
        return ToolWorker(self._config.simulator, self.tool_sets(), folders=folders)

    def _path(self) -> Path:
        given = Path(self._settings.tasks)
        beside = folder_of(self._class) / given
        return beside if not given.exists() and beside.exists() else given

    def _check_reference(self, task: Task) -> None:
        """Refuse a task that nobody could fail. Raises ConfigError."""
        if not any(turn.reference for turn in tool_task(task).turns):
            raise ConfigError(
                f"{self._path()}: task {task.task_id!r} needs a reference in at least one turn, "
                f"because {self._tools} has no method reward(self, task) that judges without one"
            )


def own_environment(kind: Any, use: str) -> type[OwnTools]:
    """Return the environment of a plain class. Raises ConfigError if it cannot be one."""
    if not isinstance(kind, type):
        raise ConfigError(
            f"environment.use: {use} needs to be a class, found a {type(kind).__name__}"
        )
    found = cast("type[Any]", kind)
    with told(f"environment.use: {use} cannot be read"):
        PlainToolSet(found)
        declared = {"name": use, "capabilities": _capabilities(found), "__doc__": found.__doc__}
    return type(found.__name__, (OwnTools,), declared)


def _capabilities(kind: type[Any]) -> Capabilities:
    """Return what the class has: everything but what ``lacks`` names. Raises ConfigError.

    Without a world there is nothing to carry out again; and calls alone lead to no answer, so that
    references could not be imitated.
    """
    said: Any = getattr(kind, "lacks", ())
    if not isinstance(said, tuple) or not set(cast("tuple[Any, ...]", said)) <= set(NAMES):
        raise ConfigError(
            f"environment.use: {kind.__qualname__}.lacks needs a tuple of names among "
            f"{', '.join(NAMES)}, found {said!r}"
        )
    lacks = cast("tuple[str, ...]", said)
    if judges_answers(kind):
        lacks += ("references",)
        lacks += () if hasattr(kind, "reset") else ("replayable", "state_digest")
    return Capabilities(**dict.fromkeys(lacks, False))

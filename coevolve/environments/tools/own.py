"""The environment that is built from a plain class (`coevolve.environments.tools.simple`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec

from coevolve.base.dependencies import lacking
from coevolve.base.foreign import shown
from coevolve.base.in_thread import run_to_end
from coevolve.base.similar import file_meant
from coevolve.base.user_code import told
from coevolve.environments.interface import Fault
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.adversary.found import Found, Named
from coevolve.environments.tools.adversary.kept import kept
from coevolve.environments.tools.adversary.play import solved
from coevolve.environments.tools.adversary.probes import Grading
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.references import played_apart
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.simple import (
    PlainToolSet,
    folder_of,
    judges_answers,
    plain_class,
)
from coevolve.environments.tools.source import FixedSource
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.task_files import read_tasks
from coevolve.environments.tools.task_rows import FORMATS
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.environments.tools.wire import ToolClient, ToolService
from coevolve.environments.tools.worker import ToolWorker
from protocols.capabilities import NAMES, Capabilities
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.numbers import Count, Seed
from protocols.tasks import Task


class OwnConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools of your own, and tasks in a file."""

    tasks: str
    """A file of JSON lines (gzip too), a parquet file, or a folder that `datasets` saved
    (`coevolve.environments.tools.task_files`). A relative path is looked up in the working
    directory, then in the folder of the class."""

    seeds: Count = 150
    """Maximum number of training tasks that the run starts with."""

    held_out: Count = 240
    """Maximum number of held-out tasks; they are the same in every run."""

    split_seed: Seed = 0
    """Seed that decides which worlds are held out (or instructions, for tasks without a world),
    among tasks that do not name their split. Use the same for runs that are compared."""

    held_out_share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.3
    """Share of worlds, or instructions, that are held out, among tasks that do not name their
    split: exactly this share of their number, rounded, and at least one."""

    unearned: Literal["leave_out", "keep"] = "leave_out"
    """What becomes of tasks that an attempt solves without doing what they ask, as
    `coevolve environment check` finds out: they are left out of the run, or kept."""


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
        """Return the rule that a class with a world cannot make tasks if it rewards answers."""
        return (
            (
                self._config.synthesizes and self._judges_answers and self.capabilities.replayable,
                f"$.arm: {self._config.arm} makes tasks from calls, but {self._tools} rewards "
                "answers; choose arm static",
            ),
        )

    def check(self) -> Sequence[str]:
        """Return what tools and tasks lack; refuse tasks that cannot be used."""
        return (*super().check(), *lacking(self._tasks))

    def source(self) -> FixedSource:
        """Return the tasks of the file, with the results of their references."""
        return self._source(keeps_unearned=self._settings.unearned == "keep")

    def _source(self, *, keeps_unearned: bool) -> FixedSource:
        tasks = self._tasks()
        # A reference has calls but no answer, so a class that rewards answers cannot verify it.
        return FixedSource(
            self._config,
            self._settings,
            tasks,
            certain=self.capabilities.deterministic_reward and not self._judges_answers,
            played=played_apart(self._worker()),
            adversary=self._adversary,
            keeps_unearned=keeps_unearned,
        )

    def _adversary(self, tasks: Sequence[Task]) -> Named:
        """Return how tasks are solved without doing what they ask."""
        bodies, grading = list(map(tool_task, tasks)), self.grading()
        found = kept(
            self._class, bodies, grading, lambda: run_to_end(self._played(bodies, grading))
        )
        return found.named([task.task_id for task in tasks])

    async def _played(self, bodies: Sequence[ToolTask], grading: Grading) -> Found:
        service = self.simulator()
        try:
            return await solved(bodies, SimulatorPool([ToolClient(service)]), service, grading)
        finally:
            await service.close()

    def grading(self) -> Grading:
        """Return how the class grades."""
        return Grading(
            rewards=hasattr(self._class, "reward"),
            judges_words=self._judges_answers,
            certain=self.capabilities.deterministic_reward,
            is_own=True,
        )

    def checked_source(self) -> FixedSource:
        """Return the source with those tasks, too, that a run leaves out as unearned."""
        return self._source(keeps_unearned=True)

    def unearned(self) -> Mapping[str, str]:
        """Return how the cheap adversary solves tasks of the file, by task id."""
        return self.source().unearned

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
        return (self._tools,)

    def simulator(self) -> ToolService:
        """Return a simulator whose child process can import the class."""
        return ToolService(self._worker())

    def kinds(self, task: Task) -> tuple[str, ...]:
        """Return the tools of a task with one turn, if the class has tools."""
        if len(task.skills) != 1 or not tool_documents(self._tools):
            return ()
        return tuple(f"skill {skill}" for skill in task.skills)

    def _worker(self) -> ToolWorker:
        folders = (folder_of(self._class),)
        return ToolWorker(self._config.simulator, self.tool_sets(), folders=folders)

    def _path(self) -> Path:
        """Return the path of the tasks. Raises ConfigError if there are none."""
        given = Path(self._settings.tasks)
        beside = folder_of(self._class) / given
        with told(f"environment.tasks: {shown(str(given))} cannot be looked up"):
            found = next((path for path in (given, beside) if path.exists()), None)
        if found is not None:
            return found
        folders = dict.fromkeys(f"{path.absolute().parent}" for path in (given, beside))
        raise ConfigError(
            f"environment.tasks: {given} has to be {FORMATS}, but is in none of "
            f"{', '.join(folders)}{file_meant(given) or file_meant(beside) or '; give its path'}"
        )

    def _check_reference(self, task: Task) -> None:
        """Refuse a task that every attempt would pass. Raises ConfigError."""
        if not any(turn.reference for turn in tool_task(task).turns):
            raise ConfigError(
                f"{self._path()}: task {task.task_id!r} needs a reference in at least one turn, "
                f"because {self._tools} has no method reward(self, task) to judge an attempt"
            )


def own_environment(kind: Any, use: str) -> type[OwnTools]:
    """Return the environment of a plain class. Raises ConfigError if the class does not fit."""
    if not isinstance(kind, type):
        raise ConfigError(
            f"environment.use: {use} has to be a class, but is a {type(kind).__name__}"
        )
    found = cast("type[Any]", kind)
    with told(f"environment.use: {use} cannot be read"):
        PlainToolSet(found)
        declared = {"name": use, "capabilities": _capabilities(found), "__doc__": found.__doc__}
    return type(found.__name__, (OwnTools,), declared)


def _capabilities(kind: type[Any]) -> Capabilities:
    """Return the class's capabilities: all but those in its ``lacks``. Raises ConfigError.

    Without a world, no session can be replayed. If the class rewards answers, calls alone do not
    solve a task, so references cannot be imitated. A task without a world or a reference has no
    instance.
    """
    declared: Any = getattr(kind, "lacks", ())
    if not isinstance(declared, tuple) or not set(cast("tuple[Any, ...]", declared)) <= set(NAMES):
        raise ConfigError(
            f"environment.use: {kind.__qualname__}.lacks needs a tuple of names among "
            f"{', '.join(NAMES)}, found {declared!r}"
        )
    lacks = cast("tuple[str, ...]", declared)
    has_world = hasattr(kind, "reset")
    if judges_answers(kind):
        lacks += ("references",)
        lacks += () if has_world else ("replayable", "state_digest")
    if "references" in lacks or not has_world:
        lacks += ("fresh_instances",)
    return Capabilities(**{"fresh_instances": True, **dict.fromkeys(lacks, False)})

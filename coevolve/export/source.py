"""The input of an export: a run's settings, its journal, and the data folded from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from coevolve.curriculum.task_sampler import TaskSampler
from coevolve.history.directory import RunDirectory
from coevolve.history.gathering import gather
from coevolve.history.run_history import Described, RunHistory
from coevolve.journal.reader import run_reader
from protocols.config import RunConfig
from protocols.interfaces import Reader
from protocols.tasks import Task


class Sampled(Described, Protocol):
    """The part of a run's environment that a source uses."""

    def sampler(self) -> TaskSampler:
        """Return a new sampler of the run's arm."""
        ...


@dataclass(frozen=True)
class Source:
    """One run up to its newest record."""

    directory: RunDirectory
    config: RunConfig
    reader: Reader
    history: RunHistory
    open_sampler: Callable[[], TaskSampler]
    """Returns a new task sampler of the run's arm."""

    @property
    def tasks(self) -> dict[str, Task]:
        """The training tasks by id, seed and synthesized; no held-out task."""
        tasks = self.history.evolution.tasks.values()
        return {task.task_id: task for task in tasks if task.split == "train"}


async def open_source(directory: RunDirectory, environment: Sampled) -> Source:
    """Read a run of ``environment``.

    Raises RunError or JournalError if its folder or journal cannot be read.
    """
    config = directory.config()
    reader = run_reader(directory.path)
    history = await gather(reader, config, environment)
    return Source(
        directory=directory,
        config=config,
        reader=reader,
        history=history,
        open_sampler=environment.sampler,
    )

"""What exports are made of: a run's settings, its journal, and what was folded from it."""

import asyncio
from dataclasses import dataclass

from coevolve.journal.reader import run_reader
from coevolve.report.report_data import Described, ReportData, gather
from coevolve.runs.directory import RunDirectory
from protocols.config import RunConfig
from protocols.interfaces import Reader
from protocols.tasks import Task


@dataclass(frozen=True)
class Source:
    """One run, as far as it has come."""

    directory: RunDirectory
    config: RunConfig
    reader: Reader
    material: ReportData

    @property
    def tasks(self) -> dict[str, Task]:
        """The training tasks by id, seeds and synthesized ones; never a held-out one."""
        tasks = self.material.evolution.tasks.values()
        return {task.task_id: task for task in tasks if task.split == "train"}


def open_source(directory: RunDirectory, environment: Described) -> Source:
    """Read a run of ``environment``.

    Raises RunError or JournalError where its folder or journal is unreadable.
    """
    config = directory.config()
    reader = run_reader(directory.path)
    material = asyncio.run(gather(reader, config, environment))
    return Source(directory=directory, config=config, reader=reader, material=material)

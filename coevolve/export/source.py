"""What exports are made of: a run's settings, its journal, and what was folded from it."""

import asyncio
from dataclasses import dataclass

from coevolve.build import parts as build
from coevolve.journal.reader import run_reader
from coevolve.report.material import Material, gather
from coevolve.run.directory import RunDirectory
from protocols.config import RunConfig
from protocols.interfaces import Reader
from protocols.tasks import Task


@dataclass(frozen=True)
class Source:
    """One run, as far as it has come."""

    directory: RunDirectory
    config: RunConfig
    reader: Reader
    material: Material

    @property
    def tasks(self) -> dict[str, Task]:
        """The training tasks with tools by id, seeds and synthesized ones; never a held-out one."""
        tasks = [each for each in self.material.evolution.tasks.values() if isinstance(each, Task)]
        return {task.task_id: task for task in tasks if task.split == "train"}


def open_source(directory: RunDirectory) -> Source:
    """Read a run. Raises RunError or JournalError where its folder or journal is unreadable."""
    config = directory.config()
    reader = run_reader(directory.path)
    material = asyncio.run(gather(reader, config, build.labels(config), {}))
    return Source(directory=directory, config=config, reader=reader, material=material)

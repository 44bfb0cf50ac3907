"""The input of an export: a run's settings, its journal, and the data folded from it."""

from dataclasses import dataclass

from coevolve.journal.reader import run_reader
from coevolve.report.report_data import Described, ReportData, gather
from coevolve.runs.directory import RunDirectory
from protocols.config import RunConfig
from protocols.interfaces import Reader
from protocols.tasks import Task


@dataclass(frozen=True)
class Source:
    """One run up to its newest record."""

    directory: RunDirectory
    config: RunConfig
    reader: Reader
    material: ReportData

    @property
    def tasks(self) -> dict[str, Task]:
        """The training tasks by id, seed and synthesized; no held-out task."""
        tasks = self.material.evolution.tasks.values()
        return {task.task_id: task for task in tasks if task.split == "train"}


async def open_source(directory: RunDirectory, environment: Described) -> Source:
    """Read a run of ``environment``.

    Raises RunError or JournalError if its folder or journal cannot be read.
    """
    config = directory.config()
    reader = run_reader(directory.path)
    material = await gather(reader, config, environment)
    return Source(directory=directory, config=config, reader=reader, material=material)

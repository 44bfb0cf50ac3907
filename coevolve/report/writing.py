"""Writes the report of a run from its folder, whether the run goes on or not."""

from pathlib import Path

from coevolve.build import parts as build
from coevolve.journal.reader import run_reader
from coevolve.report.material import gather
from coevolve.report.page import write_report
from coevolve.run import attribution
from coevolve.run.directory import RunDirectory


async def report(directory: RunDirectory, path: Path) -> None:
    """Write the report of the run in ``directory``, as far as its journal goes, to ``path``."""
    config = directory.config()
    material = await gather(
        run_reader(directory.path),
        config,
        labels=build.labels(config),
        skills=build.skills(config),
        attribution=attribution.known(directory.path),
    )
    write_report(path, material)

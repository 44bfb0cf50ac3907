"""Writes the report of a run from its folder, while the run goes on or afterwards."""

from pathlib import Path

from coevolve.journal.reader import run_reader
from coevolve.report.page import write_report
from coevolve.report.report_data import Described, gather
from coevolve.runs import attribution
from coevolve.runs.directory import RunDirectory


async def report(directory: RunDirectory, path: Path, environment: Described) -> None:
    """Write the report of the run in ``directory``, up to its newest record, to ``path``.

    ``environment`` is the environment of the run.
    """
    data = await gather(
        run_reader(directory.path),
        directory.written_config(),
        environment,
        attribution=attribution.known(directory.path),
    )
    write_report(path, data)

"""Writes the report of a run from its folder, while the run goes on or afterwards."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from coevolve.history.directory import RunDirectory
from coevolve.history.gathering import gather
from coevolve.history.rollouts import NO_SAMPLE, sample_of
from coevolve.history.run_history import Described, suspects_of, visits_of
from coevolve.history.series import read_series
from coevolve.journal.reader import run_reader
from coevolve.report.page import write_report


async def report(
    directory: RunDirectory,
    path: Path,
    environment: Described,
    others: Sequence[RunDirectory] = (),
) -> None:
    """Write the report of the run in ``directory``, up to its newest record, to ``path``.

    ``environment`` is the environment of the run. The metrics of ``others`` are drawn beside its
    own.
    """
    reader = run_reader(directory.path)
    data = await gather(reader, directory.written_config(), environment)
    series = [read_series(each.metrics, each.path.name) for each in (directory, *others)]
    sources = await environment.sources(reader, visits_of(data))
    found = await suspects_of(reader, data)
    sample = NO_SAMPLE
    if not environment.withheld:
        sample = await sample_of(reader, data.evolution, directory.config(), found)
    write_report(path, replace(data, series=series, sample=sample, sources=sources, suspects=found))

"""`coevolve report`."""

import asyncio
import sys
from pathlib import Path

import click

from coevolve.cli.options import FOLDER, run_argument, runs_option


@click.command(name="report")
@run_argument()
@click.option("--out", type=FOLDER, help="File to write; default: report.html in the run's folder.")
@runs_option
def command(run: str | None, *, out: Path | None, runs: Path) -> None:
    """Write the report of a run and print the file's path. The run may be running or ended.

    RUN is a run's folder or its name; default: the newest run.
    """
    from coevolve.environments.registry import environment_of
    from coevolve.report.writing import report
    from coevolve.runs import finding

    directory = finding.find(run, runs)
    path = out or directory.report
    asyncio.run(report(directory, path, environment_of(directory.config())))
    sys.stdout.write(f"{path}\n")

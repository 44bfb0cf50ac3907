"""`coevolve report`."""

import asyncio
import sys
from pathlib import Path

import click

from coevolve.cli.options import FOLDER, code_option, run_arguments, runs_option


@click.command(name="report")
@run_arguments()
@click.option("--out", type=FOLDER, help="File to write; default: report.html in the run's folder.")
@runs_option
@code_option
def command(run: tuple[str, ...], *, out: Path | None, runs: Path) -> None:
    """Write the report of a run and print the file's path. The run may be running or ended.

    RUN is a run's folder or its name; default: the newest run. After the first, each RUN is one to
    compare with: its metrics are drawn beside those of the first.
    """
    from coevolve.environments.registry import environment_to_read
    from coevolve.history import finding
    from coevolve.report.writing import report

    directory, *others = [finding.find(each, runs) for each in run or (None,)]
    path = out or directory.report
    asyncio.run(report(directory, path, environment_to_read(directory.config()), others))
    sys.stdout.write(f"{path}\n")

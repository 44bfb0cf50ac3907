"""`coevolve journal`."""

import sys
from pathlib import Path

import click

from coevolve.cli.options import run_argument, runs_option


@click.group(name="journal")
def command() -> None:
    """Find and repair damage of a run's journal."""


@command.command(name="verify")
@run_argument()
@runs_option
def verify(run: str | None, *, runs: Path) -> int:
    """Read everything in a run's journal and name all damage.

    RUN is a run's folder or its name; default: the newest run. The run may be running. Nothing is
    written. Exit code 1: the journal is damaged.
    """
    from coevolve.commands import journal

    return 0 if journal.verify(run, runs, sys.stdout) else 1


@command.command(name="repair")
@run_argument(required=True)
@runs_option
def repair(run: str, *, runs: Path) -> int:
    """Save what is whole in a damaged journal as a new one, and list what is gone.

    RUN is a run's folder or its name. The new journal takes the place of the damaged one, which
    stays in a folder beside it. A whole journal is left as it is.
    """
    from coevolve.commands import journal

    journal.repair(run, runs, sys.stdout)
    return 0

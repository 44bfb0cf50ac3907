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
    from coevolve.history import finding
    from coevolve.journal import verification

    found = finding.find(run, runs)
    faults = verification.faults(found.store)
    if not faults:
        sys.stdout.write(f"{found.store}: the journal is whole\n")
        return 0
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(f"save what is whole with `coevolve journal repair {found.called}`\n")
    return 1


@command.command(name="repair")
@run_argument(required=True)
@runs_option
def repair(run: str, *, runs: Path) -> int:
    """Save what is whole in a damaged journal as a new one, and list what is gone.

    RUN is a run's folder or its name. The new journal takes the place of the damaged one, which
    stays in a folder beside it. A whole journal is left as it is.
    """
    from coevolve.history import finding
    from coevolve.journal import repair as repairing
    from coevolve.journal import verification

    found = finding.find(run, runs)
    if not verification.faults(found.store):
        sys.stdout.write(f"{found.store}: the journal is whole; nothing was changed\n")
        return 0
    done = repairing.repair(found.store)
    sys.stdout.writelines(f"{each}\n" for each in done.gone)
    sys.stdout.write(
        f"{found.store}: the new journal has {done.kept} whole records; the damaged one is in "
        f"{done.damaged}\n"
    )
    return 0

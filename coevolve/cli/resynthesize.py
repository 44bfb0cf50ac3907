"""`coevolve resynthesize`."""

from pathlib import Path

import click

from coevolve.cli.options import json_option, run_argument, runs_option


@click.command(name="resynthesize")
@run_argument()
@json_option
@runs_option
def command(run: str | None, *, as_json: bool, runs: Path) -> int:
    """Make a run's tasks again from the recorded model calls, and compare them.

    RUN is a run's folder or its name; default: the newest run. No model is asked and no key is
    needed: recorded calls stand in for the model, and real simulators carry out the calls. Nothing
    is written. Exit code 1: some candidates differ.
    """
    from coevolve.commands.resynthesize import compare
    from coevolve.runs import finding

    return 0 if compare(finding.find(run, runs).path, as_json=as_json) else 1

"""`coevolve audit`."""

from pathlib import Path

import click

from coevolve.cli.options import code_option, json_option, run_argument, runs_option


@click.command(name="audit")
@run_argument()
@click.option("--replay", is_flag=True, help="Also take every learner step again.")
@json_option
@runs_option
@code_option
def command(run: str | None, *, replay: bool, as_json: bool, runs: Path) -> int:
    """Check that a run lost nothing and did nothing twice.

    RUN is a run's folder or its name; default: the newest run. It may be running: what has no
    answer yet is then open, and no fault. With --replay, the weights of every step are compared
    bit by bit (`coevolve replay`). Exit code 1: something is wrong, and a line says what.
    """
    from coevolve.commands.audit import examine, show
    from coevolve.history import finding

    found = examine(finding.find(run, runs), again=replay)
    show(found, as_json=as_json)
    return 1 if found.faults else 0

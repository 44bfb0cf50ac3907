"""`coevolve replay`."""

from pathlib import Path

import click

from coevolve.cli.options import code_option, run_argument, runs_option


@click.command(name="replay")
@run_argument()
@click.option(
    "--from-checkpoint",
    type=click.IntRange(min=0),
    metavar="N",
    help="Begin at the checkpoint of step N; default: at version 0.",
)
@runs_option
@code_option
def command(run: str | None, *, from_checkpoint: int | None, runs: Path) -> int:
    """Take every learner step of a run again and compare the weights, bit by bit.

    RUN is a run's folder or its name; default: the newest run. Each step is taken on its recorded
    batch; nothing is written. Exit code 1: some step led to other weights.
    """
    from coevolve.commands import replay
    from coevolve.history import finding

    run_dir = finding.find(run, runs).path
    return 0 if replay.compare(run_dir, from_checkpoint) else 1

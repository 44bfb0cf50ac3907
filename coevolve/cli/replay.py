"""`coevolve replay`."""

from pathlib import Path
from typing import Literal, get_args

import click

from coevolve.cli.options import code_option, run_argument, runs_option

Source = Literal["objective", "imitation", "replay"]
"""`coevolve.learning.rows.Source`, which loads torch."""


@click.command(name="replay")
@run_argument()
@click.option(
    "--from-checkpoint",
    type=click.IntRange(min=0),
    metavar="N",
    help="Begin at the checkpoint of step N; default: at version 0.",
)
@click.option(
    "--ablate",
    multiple=True,
    type=click.Choice(get_args(Source)),
    help="Train without this source of gradient and score the result; may be given repeatedly.",
)
@click.option("--anew", is_flag=True, help="With --ablate: by a run with rollouts of its own.")
@runs_option
@code_option
def command(
    run: str | None,
    *,
    from_checkpoint: int | None,
    ablate: tuple[Source, ...],
    anew: bool,
    runs: Path,
) -> int:
    """Take every learner step of a run again and compare the weights, bit by bit.

    RUN is a run's folder or its name; default: the newest run. Each step is taken on its recorded
    batch; nothing is written. Exit code 1: some step led to other weights.

    With --ablate the recorded batches are trained again without one source of gradient. Its worth
    is printed and kept in the run's folder, for the report.
    """
    if anew and not ablate:
        raise click.UsageError("--anew needs --ablate SOURCE")
    if ablate and from_checkpoint is not None:
        raise click.UsageError("--ablate trains from version 0; leave --from-checkpoint out")
    from coevolve.commands import replay
    from coevolve.history import finding

    run_dir = finding.find(run, runs).path
    if ablate:
        replay.attribute(run_dir, ablate, anew=anew)
        return 0
    return 0 if replay.compare(run_dir, from_checkpoint) else 1

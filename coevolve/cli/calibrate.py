"""`coevolve calibrate`."""

import click

from coevolve.cli.options import json_option, overrides_argument, run_file_argument


@click.command(name="calibrate")
@run_file_argument(required=False)
@overrides_argument
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulated policies.")
@click.option(
    "--histories",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="Simulated histories of a task, for each rule and level.",
)
@json_option
def command(
    run_file: str | None,
    overrides: tuple[str, ...],
    *,
    seed: int,
    histories: int,
    as_json: bool,
) -> int:
    """Measure how often each signal rule fires by chance.

    Group size, window and thresholds are those of the run file FILE; without one, the defaults.
    Exit code 1: some posterior rule raises false alarms in more than 5 % of the evaluations.
    """
    from coevolve.commands.calibrate import measure
    from coevolve.config import load_config
    from protocols.config import RunConfig

    config = load_config(run_file, overrides) if run_file else RunConfig(name="defaults")
    return 0 if measure(config, histories=histories, seed=seed, as_json=as_json) else 1

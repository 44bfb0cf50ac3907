"""`coevolve calibrate`."""

from pathlib import Path

import click

from coevolve.cli.options import (
    code_option,
    json_option,
    overrides_argument,
    run_file_argument,
    runs_option,
)


@click.command(name="calibrate")
@run_file_argument(required=False, unless="planted")
@overrides_argument
@click.option(
    "--planted",
    is_flag=True,
    is_eager=True,
    help="Plant losses into recorded runs instead, and measure which rules find them; the words "
    "are runs, by their folders or names.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all random choices.")
@click.option(
    "--histories",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="Simulated histories of a task, for each rule and level.",
)
@runs_option
@code_option
@json_option
def command(
    run_file: str | None,
    overrides: tuple[str, ...],
    *,
    planted: bool,
    seed: int,
    histories: int,
    runs: Path,
    as_json: bool,
) -> int:
    """Measure how often signal rules fire by chance.

    Group size, window and thresholds are those of the run file FILE; without one, the defaults.
    Exit code 1: some posterior rule raises false alarms in more than 5 % of the evaluations.

    With --planted, the visits of recorded runs go through the rules again, with losses planted into
    them: how many are found, how soon, and how many false alarms a run has. Exit code 0.
    """
    from coevolve.config.load import load_config

    words = (run_file, *overrides) if run_file else overrides
    if planted:
        from coevolve.commands.calibrate_planted import measure_planted
        from coevolve.history.finding import find

        folders = [find(name, runs).path for name in words or (None,)]
        measure_planted(folders, seed=seed, as_json=as_json)
        return 0
    from coevolve.commands.calibrate import measure
    from protocols.config import RunConfig

    config = load_config(run_file, overrides) if run_file else RunConfig(name="defaults")
    return 0 if measure(config, histories=histories, seed=seed, as_json=as_json) else 1

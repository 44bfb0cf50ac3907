"""`coevolve calibrate`."""

from pathlib import Path

import click

from coevolve.cli.options import (
    code_option,
    json_option,
    opening_code,
    overrides_argument,
    run_file_argument,
    runs_option,
)


@click.command(name="calibrate")
@run_file_argument(required=False, unless="planted")
@overrides_argument
@click.option(
    "--gates",
    is_flag=False,
    flag_value="",
    metavar="[ENVIRONMENT]",
    callback=opening_code,
    help="Measure the gates of an environment (the quickstart's by default) instead; its settings "
    "follow as NAME=VALUE.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --gates: own tasks of each label, at most; 0 for all.",
)
@click.option(
    "--spoilt",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="With --gates: spoilt tasks of each kind.",
)
@click.option(
    "--calls-per-turn",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="With --gates: calls that a reference may have in a turn.",
)
@click.option(
    "--reader-of",
    metavar="FILE",
    callback=opening_code,
    help="With --gates: read with the reader of this run file, and print the agreement that "
    "separates own from spoilt tasks best; without it, nobody reads.",
)
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
    gates: str | None,
    sample: int,
    spoilt: int,
    calls_per_turn: int,
    reader_of: str | None,
    planted: bool,
    seed: int,
    histories: int,
    runs: Path,
    as_json: bool,
) -> int:
    """Measure how often signal rules fire by chance, or what gates get wrong.

    Group size, window and thresholds are those of the run file FILE; without one, the defaults.
    Exit code 1: some posterior rule raises false alarms in more than 5 % of the evaluations.

    With --gates, an environment's own tasks are candidates, and then tasks that are spoilt on
    purpose: the first should be admitted, the others refused. Exit code 0.

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
    if gates is not None:
        from coevolve.commands.calibrate_gates import Choices, measure_gates

        choices = Choices(
            sample=sample,
            planted=spoilt,
            calls_per_turn=calls_per_turn,
            reader=load_config(reader_of) if reader_of else None,
            seed=seed,
        )
        use = gates or load_config("quickstart").uses
        measure_gates(use, words, choices, as_json=as_json)
        return 0
    from coevolve.commands.calibrate import measure
    from protocols.config import RunConfig

    config = load_config(run_file, overrides) if run_file else RunConfig(name="defaults")
    return 0 if measure(config, histories=histories, seed=seed, as_json=as_json) else 1

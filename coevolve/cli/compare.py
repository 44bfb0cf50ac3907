"""`coevolve compare`."""

from pathlib import Path

import click

from coevolve.cli.options import runs_option


@click.command(name="compare")
@click.argument("name", metavar="STUDY")
@click.option("--plan", "only_plan", is_flag=True, help="Print arms, seeds and what could be seen.")
@click.option("--seeds", type=click.IntRange(min=2), help="Only the study's first N seeds.")
@click.option("--at-once", type=click.IntRange(min=1), help="Runs at a time; default: 2 a core.")
@click.option("--on-ray", is_flag=True, help="Launch the runs on Ray, one after another.")
@runs_option
def command(
    name: str,
    *,
    only_plan: bool,
    seeds: int | None,
    at_once: int | None,
    on_ray: bool,
    runs: Path,
) -> None:
    """Compare arms over paired seeds: make the runs of a study, and test its contrasts.

    STUDY is a file, or the name of a study that coevolve carries, such as toolbox. Runs are made
    in one process each and kept in the folder of runs; the same command goes on with what is
    missing.
    """
    from coevolve.base.terminal import Terminal
    from coevolve.commands.compare import compare, cores, print_plan, print_tables
    from coevolve.commands.study import plans_of, study_of

    study, console = study_of(name), Terminal()
    folder = runs / Path(name).stem
    chosen = study.seeds[:seeds]
    print_plan(study, plans_of(study, chosen), folder, console)
    if only_plan:
        return
    by = "coevolve.launch" if on_ray else "coevolve.loop"
    jobs = 1 if on_ray else at_once or cores()
    print_tables(study, compare(study, chosen, folder, at_once=jobs, by=by), console)

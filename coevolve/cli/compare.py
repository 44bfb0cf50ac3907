"""`coevolve compare`."""

from pathlib import Path

import click

from coevolve.cli.options import opening_code, runs_option


@click.command(name="compare")
@click.argument("name", metavar="STUDY", callback=opening_code)
@click.option("--plan", "only_plan", is_flag=True, help="Print arms, seeds and what could be seen.")
@click.option("--seeds", type=click.IntRange(min=2), help="Only the study's first N seeds.")
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    help="Runs at a time; default: 2 a core, as far as free memory lasts.",
)
@click.option(
    "--on-ray", is_flag=True, help="Launch them on Ray, one after another; they keep all."
)
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

    STUDY is a file, or the name of a study that coevolve carries. Each run has one process, and
    keeps its journal, but neither checkpoints nor weights, in a folder compare-STUDY of the folder
    of runs, which also gets a page with curves and tables. The same command goes on with what is
    missing.
    """
    from coevolve.base.terminal import Terminal
    from coevolve.commands.compare import compare, print_plan, runs_at_once
    from coevolve.commands.compared import print_tables, tables, write_page
    from coevolve.commands.study import plans_of, study_of

    study, console = study_of(name), Terminal()
    folder = runs / f"compare-{Path(name).stem}"
    plans = plans_of(study, study.seeds[:seeds])
    print_plan(study, plans, folder, console)
    if only_plan:
        return
    by = "coevolve.launch" if on_ray else "coevolve.loop"
    jobs = 1 if on_ray else at_once or runs_at_once(plans, folder)
    outcomes = compare(plans, folder, at_once=jobs, by=by)
    every = tables(study, outcomes)
    print_tables(every, console)
    page = write_page(Path(name).stem, study, outcomes, every, folder)
    console.print(f"Curves and tables: {page}")

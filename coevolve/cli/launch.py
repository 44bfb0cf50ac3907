"""`coevolve launch`, which is also `python -m coevolve.launch`."""

from pathlib import Path

import click

from coevolve.cli.options import (
    detach_option,
    for_option,
    for_words,
    keep_option,
    overrides_argument,
    refuse_in_job,
    run_file_argument,
    runs_option,
)
from coevolve.launcher.interrupts import end_at_once


@click.command(name="launch")
@run_file_argument()
@overrides_argument
@click.option("--resume", is_flag=True, help="Continue the run of this name.")
@click.option(
    "--dry-run", is_flag=True, help="Check the file, print settings and estimate, and stop."
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --dry-run: what a GPU of yours was measured to do, from the GPU benchmark.",
)
@keep_option
@for_option
@detach_option
@runs_option
def command(
    run_file: str,
    overrides: tuple[str, ...],
    *,
    resume: bool,
    dry_run: bool,
    measured: Path | None,
    keep: bool,
    for_s: float,
    detach: bool,
    runs: Path,
) -> int:
    """Start a run and stay with it until it ends.

    FILE is a YAML file, or the name of one that coevolve carries (`coevolve config list`).
    KEY=VALUE overrides a setting of it: learner.steps=20.

    All files of the run are in the folder RUNS/NAME. Ctrl-C stops the run after the current step; a
    second Ctrl-C stops it at once. `coevolve resume` continues it in either case. With --detach,
    `coevolve attach NAME status` looks into the run and `coevolve attach NAME stop` stops it. With
    --keep, the run resumes after each loss, until several resumptions in a row took no step. With
    --for, it stops after a time, and `coevolve resume` goes on, also on another machine.
    """
    if dry_run and (detach or keep):
        raise click.UsageError("--dry-run starts no run; leave --detach and --keep out")
    if measured and not dry_run:
        raise click.UsageError("--measured is for --dry-run")
    if keep and for_words(for_s):
        raise click.UsageError("--for stops the run, and --keep continues it; leave one out")
    if detach:
        refuse_in_job()
    elif not keep:
        end_at_once("interrupted before the run began")
    words = ("launch", run_file, *overrides, "--runs", str(runs))
    if keep and not detach:
        return kept(run_file, overrides, runs, words, resume=resume)
    from coevolve.base.terminal import Terminal
    from coevolve.screen import start as starting

    with starting.StartScreen(Terminal(), f"coevolve launch {run_file}") as screen:
        from coevolve.cli.launching import print_dry_run, stay_with
        from coevolve.launcher.launch import settings

        screen.begin(starting.SETTINGS)
        config = settings(run_file, overrides, runs, resume=resume)
        if dry_run:
            print_dry_run(config, screen, measured)
        elif detach:
            from coevolve.cli.detached import detach as start

            words = (*words, "--resume", *(("--keep",) if keep else ()), *for_words(for_s))
            start(config, runs, words, screen, resume=resume)
        else:
            return stay_with(config, runs, screen, resume=resume, for_s=for_s)
    return 0


def kept(
    run_file: str, overrides: tuple[str, ...], runs: Path, words: tuple[str, ...], *, resume: bool
) -> int:
    """Keep the run of a file going, by the command ``words``; return its exit code."""
    from coevolve.base.foreign import resolved
    from coevolve.cli.keeping import keep
    from coevolve.config.load import load_config

    config = load_config(run_file, overrides)
    path = resolved(runs / config.name)
    return keep(config, path, lambda again: (*words, "--resume") if again else words, resume=resume)

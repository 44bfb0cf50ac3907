"""`coevolve resume`."""

from pathlib import Path

import click

from coevolve.cli.options import (
    code_option,
    detach_option,
    for_option,
    for_words,
    keep_option,
    overrides_argument,
    refuse_in_job,
    run_argument,
    runs_option,
)
from coevolve.launcher.interrupts import end_at_once


@click.command(name="resume")
@run_argument(required=True)
@overrides_argument
@click.option(
    "--from",
    "copies",
    metavar="FOLDER",
    help="Restore the run from its newest copy; FOLDER is what its store.copies named.",
)
@keep_option
@for_option
@detach_option
@runs_option
@code_option
def command(
    run: str,
    overrides: tuple[str, ...],
    *,
    copies: str | None,
    keep: bool,
    for_s: float,
    detach: bool,
    runs: Path,
) -> int:
    """Continue a run that was stopped or killed, with the settings in its folder.

    KEY=VALUE changes a setting that may change, such as learner.steps=200. Without
    rollout.actors=N, the run keeps the number that `coevolve attach scale` set last.

    With --from, the run's folder is made from a copy, for example on another machine. With --keep,
    the run resumes after each loss, until several resumptions in a row took no step.
    """
    if keep and for_words(for_s):
        raise click.UsageError("--for stops the run, and --keep continues it; leave one out")
    if detach:
        refuse_in_job()
    elif not keep:
        end_at_once("interrupted before the run continued")
    from coevolve.history import finding
    from coevolve.runs import starting

    if copies is not None:
        _restore(copies, runs / run if Path(run).name == run else Path(run))
    directory = finding.find(run, runs)
    starting.check_name(directory, directory.written_config().name)
    words = ("resume", run, *overrides, "--runs", str(runs))
    if keep and not detach:
        from coevolve.cli.keeping import keep as kept

        return kept(directory.written_config(), directory.path, lambda _: words, resume=True)
    from coevolve.base.terminal import Terminal
    from coevolve.screen import start as screens

    with screens.StartScreen(Terminal(), f"coevolve resume {run}") as screen:
        from coevolve.cli.launching import stay_with
        from coevolve.launcher.launch import settings

        screen.begin(screens.SETTINGS)
        config = settings(directory.config_file(), overrides, directory.path.parent, resume=True)
        starting.check_name(directory, config.name)
        if detach:
            from coevolve.cli.detached import detach as start

            words = (*words, *(("--keep",) if keep else ()), *for_words(for_s))
            start(config, directory.path.parent, words, screen, resume=True)
        else:
            return stay_with(config, directory.path.parent, screen, resume=True, for_s=for_s)
    return 0


def _restore(copies: str, path: Path) -> None:
    """Make the run's folder ``path`` from its newest copy, and say what it holds."""
    from coevolve.base.foreign import resolved
    from coevolve.runs.copies.restoring import restore

    restore(copies, resolved(path), lambda line: click.echo(f"coevolve: {line}", err=True))

"""`coevolve resume`."""

from pathlib import Path

import click

from coevolve.cli.options import (
    detach_option,
    overrides_argument,
    refuse_in_job,
    run_argument,
    runs_option,
)
from coevolve.launcher.interrupts import end_at_once


@click.command(name="resume")
@run_argument(required=True)
@overrides_argument
@detach_option
@runs_option
def command(run: str, overrides: tuple[str, ...], *, detach: bool, runs: Path) -> None:
    """Continue a run that was stopped or killed, with the settings in its folder.

    KEY=VALUE changes a setting that may change, such as learner.steps=200. Without
    rollout.actors=N, the run keeps the number that `coevolve attach scale` set last.
    """
    if detach:
        refuse_in_job()
    else:
        end_at_once("interrupted before the run continued")
    from coevolve.cli.launching import stay_with
    from coevolve.launcher.launch import settings
    from coevolve.runs import directory as run_directory

    directory = run_directory.find(run, runs)
    written = directory.path / "config.yaml"
    config = settings(written, overrides, directory.path.parent, resume=True)
    if detach:
        from coevolve.cli.detached import detach as start

        words = ("resume", run, *overrides, "--runs", str(runs))
        start(config, directory.path.parent, words, resume=True)
    else:
        stay_with(config, directory.path.parent, resume=True)

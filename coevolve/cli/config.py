"""Shows, explains and checks run files: ``coevolve config list | show | explain | check``."""

import sys

import click

from coevolve.cli.options import overrides_argument, run_file_argument

WIDTH = 110
LACKING = 3
"""Exit code of `check` if the file has no faults, but this machine lacks something."""

FILE = "FILE is a path, or the name of a run file that `coevolve config list` prints."


@click.group(name="config")
def command() -> None:
    """List, show, explain and check run files."""


@command.command(name="list")
def list_() -> None:
    """List the run files that coevolve carries, with what each is for."""
    import textwrap

    from coevolve.config.run_files import carried, purpose

    files = carried()
    column = max(map(len, files), default=0) + 2
    for name, path in files.items():
        lines = textwrap.wrap(purpose(path), WIDTH - column)
        indented = f"\n{' ' * column}".join(lines)
        sys.stdout.write(f"{name:{column}}{indented}\n")


@command.command(epilog=FILE)
@run_file_argument()
@overrides_argument
@click.option("--resolved", is_flag=True, help="Print every setting, defaults spelled out.")
def show(run_file: str, overrides: tuple[str, ...], *, resolved: bool) -> None:
    """Print a run file with its comments, to begin your own with.

    With overrides, or --resolved, print the settings that a run would have.
    """
    if not (overrides or resolved):
        from coevolve.config import run_files

        sys.stdout.write(run_files.text_of(run_files.run_file(run_file)))
        return
    from coevolve.config.load import load_config
    from coevolve.yaml.text import write_yaml

    sys.stdout.write(write_yaml(load_config(run_file, overrides)))


@command.command()
@click.argument("setting", default="")
@click.option(
    "--environment",
    default="",
    metavar="USE",
    help="A built-in environment, or package.module:Class of your own.",
)
def explain(setting: str, environment: str) -> None:
    """Say what a setting means, which values it takes, and what its default is.

    Without SETTING, list the sections of a run file. SETTING is a path such as
    learner.objective, as it stands in overrides and in error messages.
    """
    from coevolve.config.reference import ENVIRONMENT, find
    from coevolve.config.text import explanation, overview

    setting = setting.removesuffix(".kind")  # the kinds are explained with their section
    if setting or environment:
        sys.stdout.write(explanation(find(setting or ENVIRONMENT, environment)))
    else:
        sys.stdout.write(overview())


@command.command(epilog=FILE)
@run_file_argument()
@overrides_argument
def check(run_file: str, overrides: tuple[str, ...]) -> int:
    """Find all faults of a run file, and what a start lacks here.

    Exit code 1: the file has faults. Exit code 3: it has none, but this machine lacks something
    that a run of it needs. Packages that a start would install are not looked for.
    """
    from coevolve.config.load import load_config
    from coevolve.launcher.preflight import refuse_missing, rehearse
    from protocols.errors import DependencyError

    config = load_config(run_file, overrides)
    try:
        refuse_missing(config)
        rehearse(config)
    except DependencyError as error:
        sys.stdout.write(f"{run_file}: no faults, but this machine cannot start a run of it\n")
        sys.stderr.write(f"coevolve: {error}\n")
        return LACKING
    sys.stdout.write(f"{run_file}: no faults; a run of it is called {config.name}\n")
    return 0

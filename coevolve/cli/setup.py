"""Sets environments up: `coevolve setup [ENVIRONMENT ...]`."""

import sys

import click

RUN_FILES = (".yaml", ".yml")


@click.command(name="setup")
@click.argument("environments", nargs=-1, metavar="[ENVIRONMENT]...")
def command(environments: tuple[str, ...]) -> None:
    """Install what environments need beyond coevolve's own dependencies.

    ENVIRONMENT is a built-in name (filesystem, bfcl, toolbox, hdl, appworld), one that an installed
    package offers, package.module:Class of your own, or a run file FILE.yaml, whose settings may
    name packages. Without any, list the environments and what each still needs.

    Python packages that do not agree with others go into a private folder of $COEVOLVE_CACHE
    ($XDG_CACHE_HOME/coevolve, ~/.cache/coevolve) and leave your Python environment as it is. For
    hdl, Debian packages are installed as root, and named otherwise.
    """
    from coevolve.config.load import load_config
    from coevolve.config.preflight import install
    from coevolve.environments.setup import overview, setup

    files = [each for each in environments if each.endswith(RUN_FILES)]
    for each in files:
        install(load_config(each))
        sys.stdout.write(f"{each}: the packages of its environment are installed\n")
    if not environments:
        overview(sys.stdout)
    elif names := [each for each in environments if each not in files]:
        setup(names, sys.stdout)

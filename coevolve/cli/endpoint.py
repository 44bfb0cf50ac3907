"""`coevolve endpoint`."""

import click

from coevolve.cli.options import opening_code, port_option


@click.group(name="endpoint")
def command() -> None:
    """Serve a stand-in for a model that makes tasks."""


@command.command(name="scripted")
@click.argument("use", metavar="CLASS", callback=opening_code)
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
@port_option(8766)
def scripted(use: str, settings: tuple[str, ...], *, port: int) -> None:
    """Serve a script that makes tasks, until Ctrl-C, to try a loop without a model.

    It is no model. It carries out your training tasks with other values, words them as your
    training tasks are worded, and reads instructions by the same words; so its tasks are of the
    kinds that you gave. A run records it as the model "scripted".

    CLASS is package.module:Class, NAME=VALUE a setting of the environment, such as
    tasks=tasks.jsonl; give those of the run file. It listens on this machine alone, in the form of
    OpenAI's chat completions.
    """
    from coevolve.commands import endpoint

    endpoint.scripted(use, settings, port)

"""`coevolve environment`."""

import sys
from pathlib import Path

import click

from coevolve.cli.options import FOLDER, json_option, opening_code


@click.group(name="environment")
def command() -> None:
    """List, check or begin environments."""


@command.command(name="list")
def list_environments() -> None:
    """List the built-in environments and those that installed packages offer."""
    from coevolve.environments.registry import environment_type, names

    for name in names():
        found = environment_type(name)
        lines = (found.__doc__ or "").strip().splitlines()
        said = (
            lines[0] if lines else f"{found.__module__}:{found.__qualname__}, without a docstring"
        )
        sys.stdout.write(f"{name:<12} {said}\n")


@command.command(name="check")
@click.argument("use", callback=opening_code)
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Check at most this many tasks of each split.",
)
@click.option(
    "--hostile", is_flag=True, help="Play an adversary as well: hostile replies and tasks."
)
@json_option
def check(use: str, settings: tuple[str, ...], *, most: int, hostile: bool, as_json: bool) -> int:
    """Measure whether an environment does what the loop relies on.

    USE is a built-in name, package.module:Class of your own, or a run file. NAME=VALUE is a setting
    of it, such as tasks=tasks.jsonl. With policy.model=MODEL, and if you like
    policy.chat.tools=prompt or rollout.max_tokens=4096, it also checks that the model can hold the
    conversations of the tasks.
    Exit code 1: some check fails.
    """
    from coevolve.commands import environment

    passed = environment.check(use, settings, most=most, hostile=hostile, as_json=as_json)
    return 0 if passed else 1


@command.command(name="tasks")
@click.argument("use", callback=opening_code)
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--to", type=FOLDER, required=True, metavar="FILE", help="File to write, which must not exist."
)
def tasks(use: str, settings: tuple[str, ...], *, to: Path) -> None:
    """Write the tasks of a program of your own into a file.

    USE is program. Its command (command=[...], python=[...]) is started once with the argument
    --tasks, and prints its tasks, one JSON object with an id a line.
    """
    from coevolve.commands import environment

    environment.write_tasks(use, settings, to)


@command.command(name="init")
@click.argument("folder", type=FOLDER)
def init(folder: Path) -> None:
    """Write a working example: a class, its tasks, a run file and a test."""
    from coevolve.commands import environment

    environment.init(folder)

"""A click group that imports each command only when it is used."""

import contextlib
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from coevolve.base.similar import did_you_mean
from protocols.errors import CoevolveError


class LazyGroup(click.Group):
    """A group with one module per command: ``MODULE.NAME`` defines the object ``command``.

    ``table`` describes each command, so that a listing imports no module. With
    ``with_environments``, each environment that declares commands is a subgroup.
    """

    def __init__(
        self,
        *arguments: Any,
        commands_of: str,
        table: Mapping[str, str],
        with_environments: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._module = commands_of
        self._table = table
        self._with_environments = with_environments

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table, followed by those of environments."""
        return [*self._table, *self._environments()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command; None if there is no such command."""
        if cmd_name in self._table:
            module = importlib.import_module(f"{self._module}.{cmd_name.replace('-', '_')}")
            return module.command
        return environment_group(cmd_name) if cmd_name in self._environments() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word. Raises UsageError with the nearest name."""
        name = args[0]
        if self.get_command(ctx, name) is None and name[:1] != "-":
            ctx.fail(f"no such command {name!r}{nearest_hint(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))
        environments = self._environments()
        if environments:
            with formatter.section("Commands of environments"):
                formatter.write_dl(
                    [(name, ", ".join(commands)) for name, commands in environments.items()]
                )

    def _environments(self) -> Mapping[str, Mapping[str, str]]:
        return environment_commands() if self._with_environments else {}


def nearest_hint(word: str, known: list[str], kind: str = "commands") -> str:
    """Return a hint with the name that the user probably meant, or with all names of a kind."""
    return did_you_mean(word, known) or f"; {kind}: {', '.join(known)}"


def split_options(words: Sequence[str], names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Split a command line into a group's own options with their values, and all other words.

    The group's options ``names`` may thus also follow its command.
    """
    options: list[str] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in names:
            options += [word, *left[:1]]
            del left[:1]
        elif word.startswith(tuple(f"{name}=" for name in names)):
            options.append(word)
        else:
            rest.append(word)
    return options, rest


def environment_commands() -> Mapping[str, Mapping[str, str]]:
    """Return, for each environment with commands, where each command is declared, by name."""
    from coevolve.environments.registry import environment_type, names

    found: dict[str, Mapping[str, str]] = {}
    for name in names():
        with contextlib.suppress(CoevolveError):  # ignore broken third-party packages
            commands = environment_type(name).commands
            if commands:
                found[name] = commands
    return found


def environment_group(name: str) -> click.Group:
    """Return the commands of an environment as a group."""
    group = click.Group(name, help=f"Commands of the environment {name}.")
    for command, place in environment_commands()[name].items():
        module, _, attribute = place.partition(":")
        group.add_command(getattr(importlib.import_module(module), attribute), command)
    return group

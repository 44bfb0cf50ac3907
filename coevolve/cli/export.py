"""`coevolve export`."""

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coevolve.cli.lazy_group import apart, near
from coevolve.cli.options import FOLDER, run_argument, runs_option, version_of
from protocols.errors import CoevolveError

if TYPE_CHECKING:
    from coevolve.export.exporter import Exporter


class ExportGroup(click.Group):
    """A group with one command for each kind of export, also those of the run's environment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let the group's own option stand anywhere."""
        options, rest = apart(args, ("--runs",))
        return super().parse_args(ctx, [*options, *rest])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every kind."""
        from coevolve.export.exporting import WEIGHTS

        return [*WEIGHTS, *_exporters(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a kind; None where there is none of this name."""
        from coevolve.export.exporting import WEIGHTS

        if cmd_name in WEIGHTS:
            return _weights_command(cmd_name, WEIGHTS[cmd_name])
        exporter = _exporters(ctx).get(cmd_name)
        return exporter and _data_command(cmd_name, exporter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the kind of the first word. Raises UsageError with the nearest name."""
        known = self.list_commands(ctx)
        if args[0] not in known and args[0][:1] != "-":
            ctx.fail(f"there is no export {args[0]!r}{near(args[0], known)}")
        return super().resolve_command(ctx, args)


@click.group(cls=ExportGroup, name="export", subcommand_metavar="WHAT --to DIR")
@run_argument(required=True)
@runs_option
def command(run: str, runs: Path) -> None:
    """Write what a run made into a new folder.

    RUN is a run's folder or its name; it may go on meanwhile, and nothing of it is changed. DIR is
    there whole in the end, or not at all.
    """
    del run, runs


def _exporters(context: click.Context) -> "Mapping[str, Exporter]":
    """Return the tables of all environments with a name, and of the run's, which win."""
    from coevolve.environments.registry import environment_of, environment_type, names
    from coevolve.runs import directory as run_directory

    found: dict[str, Exporter] = {}
    for use in names():
        with contextlib.suppress(CoevolveError):  # another's package that cannot be imported
            found.update(environment_type(use).exports)
    with contextlib.suppress(CoevolveError):  # said when the command is carried out
        if context.params.get("run"):
            config = run_directory.find(context.params["run"], context.params["runs"]).config()
            found.update(environment_of(config).exports)
    return found


_TO = click.Option(
    ["--to"], type=FOLDER, required=True, metavar="DIR", help="Folder to make; it must not exist."
)


def _weights_command(name: str, about: str) -> click.Command:
    def write(*, to: Path, version: str) -> None:
        from coevolve.environments.registry import environment_of
        from coevolve.export.exporting import export_weights

        directory = _directory()
        target = to.absolute()
        environment = environment_of(directory.config())
        done = export_weights(directory, environment, name, version, target)
        sys.stdout.write(f"{target}: {done}\n")

    version = click.Option(
        ["--version"],
        default="newest",
        show_default=True,
        metavar="N|newest|best",
        callback=version_of,
        help="Policy version; best: by the guard's canary tasks.",
    )
    return click.Command(name, callback=write, params=[_TO, version], help=_sentence(about))


def _data_command(name: str, exporter: "Exporter") -> click.Command:
    def write(*, to: Path, **options: Any) -> None:
        from coevolve.environments.registry import environment_of
        from coevolve.export.exporting import export_data

        directory = _directory()
        target = to.absolute()
        environment = environment_of(directory.config())
        done = export_data(directory, environment, name, target, options)
        sys.stdout.write(f"{target}: {done}\n")

    options = [
        click.Option(
            [f"--{option}"],
            type=click.Choice(choices),
            default=choices[0],
            show_default=True,
            help="See the table's README.md.",
        )
        for option, choices in exporter.options.items()
    ]
    return click.Command(
        name, callback=write, params=[_TO, *options], help=_sentence(exporter.about)
    )


def _directory() -> Any:
    from coevolve.runs import directory as run_directory

    group = click.get_current_context().parent
    assert group is not None
    return run_directory.find(group.params["run"], group.params["runs"])


def _sentence(about: str) -> str:
    return f"{about[:1].upper()}{about[1:]}."
